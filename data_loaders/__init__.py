"""The paper's data sets: one module each, with a `load(data_dir)` that returns a `Dataset`."""

from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    X: np.ndarray  # (rows, ...) samples: float64, images float32
    y: np.ndarray  # (rows,) int64 labels 0, 1, ...
    subject: np.ndarray | None = None  # (rows,) int64: the person a row comes from
    X_test: np.ndarray | None = None  # (test rows, ...) and
    y_test: np.ndarray | None = None  # (test rows,): the data set's own test set, if it has one
