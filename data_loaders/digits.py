"""scikit-learn's own digits (UCI, Alpaydin and Kaynak 1998): 1797 handwritten digits, with no download."""

from pathlib import Path

import numpy as np

from data_loaders import Dataset

SIDE = 28  # MNIST's, so that the same network fits
TEST_EVERY = 5


def load(data_dir: str | Path | None = None) -> Dataset:
    """X (1433, 28, 28) float32 in [0, 1], y 0..9; X_test, y_test: 364 more.

    Linear interpolation (scipy.ndimage.zoom, order 1) from 8 x 8, which can't leave [0, 1]. The test set is
    fixed: of each digit the first image in scikit-learn's order, the sixth, and so on. Raises ValueError if
    given a folder, which it would not read.
    """
    from scipy.ndimage import zoom  # both here: they take half a second, and no other data set needs them
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    if data_dir is not None:
        raise ValueError(f"digits come with scikit-learn and need no data folder, got {data_dir}")
    bundle = load_digits()
    small, y = bundle.images / 16, bundle.target.astype(np.int64)
    factor = SIDE / small.shape[1]
    X = zoom(small, (1, factor, factor), order=1, mode="nearest", grid_mode=True).astype(np.float32)
    test = np.zeros(len(y), bool)
    for digit in range(10):
        test[np.flatnonzero(y == digit)[::TEST_EVERY]] = True
    return Dataset(X[~test], y[~test], X_test=X[test], y_test=y[test])
