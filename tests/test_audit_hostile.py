"""What becomes of a function under hostile inputs."""

import numpy as np
import pytest

from refimpl import aggregate
from refimpl.audit import hostile, judge
from refimpl.audit.cases import HOSTILE

pytestmark = pytest.mark.usefixtures("patient")


def refuses_nan(W):
    if not np.isfinite(W).all():
        raise ValueError("send numbers")
    return aggregate.coordinate_median(W)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "kind", "fates"),
    [
        (aggregate.coordinate_median, "median", {"survives"}),
        (lambda W: np.median(W, axis=0), "median", {"survives", "propagates"}),
        (refuses_nan, "median", {"survives", "refuses"}),
        (aggregate.average, "average", {"propagates", "is captured"}),
        (aggregate.krum, "krum", {"survives"}),
        (lambda W, f: W[np.argmax(abs(W[:, 0]))], "krum", {"is captured"}),
        (aggregate.adaptive_weights, "adaptive-weights", {"survives"}),
        (lambda r, own: np.full(len(r), 1 / len(r)), "adaptive-weights", {"survives", "is captured"}),
        (lambda r, own: (1 / r) / (1 / r).sum(), "adaptive-weights", {"survives", "propagates"}),
    ],
)
def test_fates(function, kind, fates):
    """Beside those of the inputs that outnumber it; of all together none is left out."""
    found = judge(function, kind, shrinks=False)
    assert set(found.fates) - {hostile.OUTNUMBERED} == fates
    assert sum(found.fates.values()) == found.agreement.apart[HOSTILE].of
    assert (hostile.OUTNUMBERED in found.fates) == (kind != "adaptive-weights")
