"""The paper's data sets, each a module with a `load(data_dir)` that returns a `Dataset`.

spambase.py   Spambase, which ships with the package
har.py        UCI HAR
mnist.py      MNIST
digits.py     scikit-learn's digits, which need no download
partition.py  how rows are dealt to workers: the table PARTITIONS
download.py   files that are fetched once, checked and kept
"""

from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    X: np.ndarray  # (rows, ...) samples: float64, images float32
    y: np.ndarray  # (rows,) int64 labels 0, 1, ...
    subject: np.ndarray | None = None  # (rows,) int64: the person a row comes from
    X_test: np.ndarray | None = None  # (test rows, ...) and
    y_test: np.ndarray | None = None  # (test rows,): the data set's own test set, if it has one
