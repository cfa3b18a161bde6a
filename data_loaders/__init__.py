"""The paper's data sets, each a module with a `load(data_dir)` that returns a `Dataset`.

spambase.py   Spambase, which ships with the package
har.py        UCI HAR
mnist.py      MNIST
digits.py     scikit-learn's digits, which need no download
partition.py  how rows are dealt to workers: the table PARTITIONS
download.py   files that are fetched once, checked and kept
"""

from typing import Any, NamedTuple

import numpy as np


class Dataset(NamedTuple):
    X: np.ndarray  # (rows, ...) samples: float64, images float32
    y: np.ndarray  # (rows,) int64 labels 0, 1, ...
    subject: np.ndarray | None = None  # (rows,) int64: the person a row comes from
    X_test: np.ndarray | None = None  # (test rows, ...) and
    y_test: np.ndarray | None = None  # (test rows,): the data set's own test set, if it has one


def checked(data: Any) -> Dataset:
    """The data set itself. Raises ValueError, naming the field, if it is not of the form that `Dataset` says.

    How many labels there may be, and the shape of a sample, are the network's to say.
    """
    if not isinstance(data, Dataset):
        raise ValueError(f"the data need to be a data_loaders.Dataset, got a {type(data).__name__}")
    _check_samples("X", data.X)
    _check_labels("y", data.y, len(data.X))
    if data.subject is not None and np.shape(data.subject) != np.shape(data.y):
        raise ValueError(f"subject needs shape {data.y.shape}, as y, got {np.shape(data.subject)}")
    if (data.X_test is None) != (data.y_test is None):
        raise ValueError("a test set needs both X_test and y_test, got one of them")
    if data.X_test is not None:
        _check_samples("X_test", data.X_test)
        _check_labels("y_test", data.y_test, len(data.X_test))
        if (found := data.X_test.shape[1:]) != data.X.shape[1:]:
            raise ValueError(f"X_test needs samples of shape {data.X.shape[1:]}, as X, got {found}")
    return data


def _check_samples(name: str, X: Any) -> None:
    """Raises ValueError unless these are a numpy array of finite real numbers, a row or more."""
    if type(X) is not np.ndarray or X.dtype.kind not in "fiu" or not X.size:
        raise ValueError(f"{name} needs to be a numpy array of real numbers, a row or more, got {_form(X)}")
    if not (finite := np.isfinite(X)).all():
        row = int(np.argwhere(~finite)[0, 0])
        raise ValueError(f"{name} needs finite numbers, got NaN or infinity in row {row}")


def _check_labels(name: str, y: Any, rows: int) -> None:
    """Raises ValueError unless these are whole numbers from 0 on, one for each row."""
    if type(y) is not np.ndarray or y.dtype != np.int64 or y.shape != (rows,):
        raise ValueError(f"{name} needs to be a numpy array of int64, shape ({rows},), got {_form(y)}")
    if y.min() < 0:
        raise ValueError(f"{name} needs labels 0, 1, ..., got {y.min()} in row {y.argmin()}")


def _form(value: Any) -> str:
    """The type and the shape of what should have been an array."""
    if not isinstance(value, np.ndarray):
        return f"a {type(value).__name__}"
    kind = "" if type(value) is np.ndarray else f"a {type(value).__name__} of "
    return f"{kind}{value.dtype}, shape {value.shape}"
