"""The table of kinds and their cases."""

import numpy as np
import pytest

from refimpl.audit import KINDS
from refimpl.audit.cases import FAR, HOSTILE
from refimpl.audit.kinds import cases_of


@pytest.mark.parametrize("kind", ["krum", "medoid"])
def test_no_choice_among_drawn_models_hangs_on_rounding(kind):
    """In float32, and with 64 bits of mantissa, the same model is chosen."""
    for case in cases_of(kind):
        if case.group in ("refused", "vectors", HOSTILE, FAR):
            continue
        W, *f = case.inputs
        for dtype in (np.float32, np.longdouble):
            assert np.allclose(KINDS[kind].define(W.astype(dtype), *f).astype(float), case.expected, 1e-5), (
                case.name
            )
