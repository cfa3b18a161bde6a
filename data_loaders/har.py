"""UCI HAR (Anguita et al. 2013): which of six activities is this phone's owner at? 30 people."""

import io
from pathlib import Path

import numpy as np

from data_loaders import Dataset
from data_loaders.download import cache_folder, digest, fetch, one_line, read_zip, regular

URL = "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip"
OUTER = "human+activity+recognition+using+smartphones.zip"
INNER = "UCI HAR Dataset.zip"
FOLDER = "UCI HAR Dataset"
SHA256_OUTER = "sha256:c00b803081a5c797cd5e4b83700a9810b38d53d9d84e01917e090e1fdbc81031"
SHA256_INNER = "sha256:2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0"
SHA256_X = {
    "train/X_train.txt": "sha256:9c1246099c8d5463779eec5a3845cc3898df9d8c715441ab2a1232d4421fc42f",
    "test/X_test.txt": "sha256:99035209add50d17650e847d8a4658d784a5707466ebb7c2deb97c28e5250a78",
}
TEXTS = [f"{part}/{kind}_{part}.txt" for part in ("train", "test") for kind in ("X", "y", "subject")]
ARRAYS = ["X.npy", "y.npy", "subject.npy"]

ROWS, FEATURES, ACTIVITIES, PEOPLE = 10299, 561, 6, 30
ZIP_BYTES = 61_005_872
UNPACKED_BYTES = 100_000_000  # of the six texts, or of the three arrays
Columns = tuple[np.ndarray, np.ndarray, np.ndarray]  # X, y from 0, subject


def load(data_dir: str | Path | None = None) -> Dataset:
    """X (10299, 561) float64, y 0..5, subject 1..30; the official training rows first, then the test rows.

    `data_dir` is a folder with the official zip, or with the zip inside it, or with what is inside that, or
    with one .npz that holds X, y (0..5) and subject; or it is such a file or folder itself. Without it, the
    same is looked for in the cache folder, and if there is nothing, the official zip is fetched.
    Raises ValueError if the data are not as described, OSError if they can't be had.
    """
    folder = cache_folder() / "har" if data_dir is None else Path(data_dir)
    source = find(folder)
    if data_dir is None and source in (None, folder / OUTER):
        source = fetch(URL, folder / OUTER, SHA256_OUTER, ZIP_BYTES)
    if source is None:
        raise ValueError(
            f"HAR needs {OUTER}, {INNER!r}, the folder {FOLDER!r} or one .npz, found none in {folder}"
        )
    if source.is_dir():
        columns = read_folder(source)
    elif source.suffix == ".npz":
        columns = read_npz(source)
    else:
        columns = read_official_zip(source)
    return checked(*columns, source)


def find(folder: Path) -> Path | None:
    """What `folder` holds, the official data before others: a zip, the folder of the texts, an .npz or None."""
    if folder.is_file():
        return folder
    for path in (folder / OUTER, folder / INNER):
        if path.is_file():
            return path
    for path in (folder / FOLDER, folder):
        if (path / TEXTS[0]).is_file():
            return path
    arrays = sorted(path for path in folder.glob("*.npz") if path.is_file())
    if len(arrays) > 1:
        raise ValueError(f"HAR needs one .npz in {folder}, got {', '.join(path.name for path in arrays)}")
    return arrays[0] if arrays else None


def read_folder(folder: Path) -> Columns:
    """The unpacked official data; the features are checked by their published checksums."""
    for name, published in SHA256_X.items():
        if (got := digest(regular(folder / name))) != published:
            raise ValueError(f"{folder / name} is not the published file: needs {published}, got {got}")
    return parse([regular(folder / name).read_bytes() for name in TEXTS], folder)


def read_official_zip(path: Path) -> Columns:
    """The official zip, or the zip inside it."""
    got = digest(path)
    if got not in (SHA256_OUTER, SHA256_INNER):
        raise ValueError(f"{path} is not the published HAR zip: needs {SHA256_OUTER}, got {got}")
    inner: Path | io.BytesIO = path
    if got == SHA256_OUTER:
        inner = io.BytesIO(read_zip(path, [INNER], ZIP_BYTES, str(path))[0])
    return parse(read_zip(inner, [f"{FOLDER}/{name}" for name in TEXTS], UNPACKED_BYTES, str(path)), path)


def parse(texts: list[bytes], source: Path) -> Columns:
    """The six texts in the order of TEXTS, as arrays; the published labels count from 1."""
    try:  # loadtxt takes one second for all of X, half of the time that bytes.split would
        X = np.concatenate([np.loadtxt(io.BytesIO(text), ndmin=2) for text in texts[::3]])
        y = np.concatenate([np.loadtxt(io.BytesIO(text), np.int64) for text in texts[1::3]])
        subject = np.concatenate([np.loadtxt(io.BytesIO(text), np.int64) for text in texts[2::3]])
    except ValueError as error:
        raise ValueError(f"{source} needs tables of numbers: {one_line(error)}") from None
    return X, y - 1, subject


def read_npz(path: Path) -> Columns:
    """X, y and subject from an .npz. Pickled objects are refused."""
    raw = read_zip(path, ARRAYS, UNPACKED_BYTES, str(path))
    try:
        X, y, subject = (np.lib.format.read_array(io.BytesIO(array), allow_pickle=False) for array in raw)
    except Exception as error:  # a mad header raises nearly anything
        raise ValueError(f"{path} needs plain arrays: {one_line(error)}") from None
    return X, y, subject


def checked(X: np.ndarray, y: np.ndarray, subject: np.ndarray, source: Path) -> Dataset:
    """The data set, if the columns are what the published ones are."""
    if X.shape != (ROWS, FEATURES) or X.dtype.kind != "f":
        raise ValueError(f"{source} needs floats X {(ROWS, FEATURES)}, got {X.dtype} {X.shape}")
    if not np.isfinite(X).all():
        raise ValueError(f"{source} needs finite X, got {np.sum(~np.isfinite(X))} values that are not")
    for name, column, low, high in (("y", y, 0, ACTIVITIES - 1), ("subject", subject, 1, PEOPLE)):
        if column.shape != (ROWS,) or column.dtype.kind not in "iu":
            raise ValueError(
                f"{source} needs whole numbers {name} {(ROWS,)}, got {column.dtype} {column.shape}"
            )
        if not np.array_equal(np.unique(column), np.arange(low, high + 1)):
            raise ValueError(
                f"{source} needs all of {low}..{high} in {name}, "
                f"got {len(np.unique(column))} numbers from {column.min()} to {column.max()}"
            )
    return Dataset(X.astype(np.float64), y.astype(np.int64), subject.astype(np.int64))
