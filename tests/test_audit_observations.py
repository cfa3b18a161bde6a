"""What else the audit observes of a function."""

import numpy as np
import pytest
from strangers import byzfl_krum

from refimpl import aggregate
from refimpl.audit import judge

pytestmark = pytest.mark.usefixtures("patient")


def sorts_in_place(W, f):
    W.sort(axis=0)
    return W[f : len(W) - f].mean(axis=0)


def first_model_twice(W):
    return (W.sum(axis=0) + W[0]) / (len(W) + 1)


def shrunk(W):
    return W.mean(axis=0) * 0.9


calls_so_far = [0]


def forgetful(W):
    calls_so_far[0] += 1
    return W.mean(axis=0) + calls_so_far[0]


@pytest.mark.parametrize(
    ("function", "kind", "note"),
    [
        (sorts_in_place, "trimmed-mean", "writes to its inputs: W"),
        (lambda W: W.mean(axis=0).astype(np.float32), "average", "changes dtype: float64 in, float32 out"),
        (lambda W: W.mean(axis=0), "average", "keeps the dtype"),
        (lambda W, f: W[f : len(W) - f].mean(axis=0), "trimmed-mean", "the order of the models: no, in "),
        (first_model_twice, "average", "independent of the order of the models: no, in "),
        (shrunk, "average", "moves with a translation of the models: no, in 8 of 8 cases"),
        (shrunk, "average", "independent of the order of the models: yes"),
        (forgetful, "average", "gives different answers to the same input"),
        (lambda W, f: aggregate.krum(W, f) if len(W) > 2 else W[0], "krum", "refuses 2 of 2"),
        (byzfl_krum, "krum", "refuses 0 of 2 inputs that the definition refuses"),
        (
            lambda W: int(np.linalg.norm(W[:, None] - W, axis=-1).sum(axis=1).argmin()),
            "medoid",
            "number of a model",
        ),
    ],
)
def test_notes(function, kind, note):
    said = judge(function, kind, shrinks=False)
    assert [line for line in said.notes if note in line], said
