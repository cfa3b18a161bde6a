"""A data set is checked once, where it is loaded: what is not of the form of `Dataset` is refused in a line."""

import numpy as np
import pytest

from data_loaders import Dataset, checked
from refimpl.experiments import cli
from refimpl.experiments.tasks import TASKS
from refimpl.models import mlp

ROWS = 400
X = np.random.default_rng(0).normal(size=(ROWS, 3))
y = np.arange(ROWS) % 2
GOOD = Dataset(X, y)

WRONG = {
    "the data need to be a data_loaders.Dataset, got a tuple": (X, y),
    "got a NoneType": None,
    "X needs to be a numpy array of real numbers, a row or more, got a list": GOOD._replace(X=X.tolist()),
    "a row or more, got <U32, shape (400, 3)": GOOD._replace(X=X.astype("<U32")),
    "a row or more, got object": GOOD._replace(X=X.astype(object)),
    "a row or more, got complex128": GOOD._replace(X=X + 1j),
    "a row or more, got a MaskedArray of float64, shape (400, 3)": GOOD._replace(X=np.ma.array(X)),
    "a row or more, got float64, shape (0, 3)": Dataset(X[:0], y[:0]),
    "X needs finite numbers, got NaN or infinity in row 7": GOOD._replace(X=np.where(X[7, 1] == X, np.inf, X)),
    "y needs to be a numpy array of int64, shape (400,), got <U1": GOOD._replace(y=np.array(["a", "b"])[y]),
    "shape (400,), got float64": GOOD._replace(y=y + 0.5),
    "shape (400,), got bool": GOOD._replace(y=y > 0),
    "shape (400,), got uint8": GOOD._replace(y=y.astype("uint8")),  # which knows no label -1, for padding
    "shape (400,), got a list": GOOD._replace(y=y.tolist()),
    "shape (400,), got int64, shape (399,)": GOOD._replace(y=y[1:]),
    "shape (399,), got int64, shape (400,)": GOOD._replace(X=X[1:]),
    "shape (400,), got int64, shape (400, 1)": GOOD._replace(y=y[:, None]),
    "y needs labels 0, 1, ..., got -1 in row 0": GOOD._replace(y=y - 1),
    "subject needs shape (400,), as y, got (5,)": GOOD._replace(subject=np.arange(5)),
    "needs both X_test and y_test, got one of them": GOOD._replace(X_test=X),
    "X_test needs finite numbers": GOOD._replace(X_test=X * np.nan, y_test=y),
    "y_test needs to be a numpy array of int64": GOOD._replace(X_test=X, y_test=y[1:]),
    "X_test needs samples of shape (3,), as X, got (2,)": GOOD._replace(X_test=X[:, 1:], y_test=y),
    # What only the network can say
    "the network takes samples of shape (3,), got (2,)": GOOD._replace(X=X[:, 1:]),
    "the network takes samples of shape (3,), got (3, 1)": GOOD._replace(X=X[:, :, None]),
    "labels must be 0 to 1, got 0 to 2": GOOD._replace(y=np.arange(ROWS) % 3),
    "labels must be 0 to 1, got 0 to 4": GOOD._replace(X_test=X, y_test=4 * y),
    "a row of its own to be tested on, got none for worker 0": GOOD._replace(X_test=X, y_test=y + 2),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_data_set_of_another_form_is_one_line(message, tmp_path, monkeypatch, capsys):
    task = TASKS["spambase"]._replace(load=lambda folder: WRONG[message], model=lambda: mlp([3, 4, 2]))
    monkeypatch.setitem(TASKS, "mine", task)
    with pytest.raises(SystemExit) as caught:
        cli.main("mine", ["--partition", "iid", "--rules", "local", "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
def test_a_data_set_of_the_right_form_is_left_as_it_is(dtype):
    data = Dataset(abs(X).astype(dtype), y, np.arange(ROWS), abs(X[:9]).astype(dtype), y[:9])
    assert checked(data) is data
