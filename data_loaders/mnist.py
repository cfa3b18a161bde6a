"""MNIST (LeCun, Cortes, Burges, CC BY-SA 3.0): handwritten digits, 28 x 28, with a test set of its own."""

import gzip
import hashlib
import math
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data_loaders import Dataset
from data_loaders.download import cache_folder, fetch, one_line

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"


class File(NamedTuple):
    name: str
    shape: tuple[int, ...]
    sha256: str  # of the IDX file
    md5: str  # of the .gz, as published
    gz_bytes: int


FILES = (
    File("train-images-idx3-ubyte", (60000, 28, 28),
         "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
         "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
    File("train-labels-idx1-ubyte", (60000,),
         "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
         "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
    File("t10k-images-idx3-ubyte", (10000, 28, 28),
         "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
         "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
    File("t10k-labels-idx1-ubyte", (10000,),
         "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
         "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
)  # fmt: skip


def load(data_dir: str | Path | None = None) -> Dataset:
    """X (60000, 28, 28) float32 in [0, 1], y 0..9; X_test, y_test: the 10000 test images.

    Reads the four IDX files, gzipped or not, from `data_dir`. Without it, from the cache folder, fetching
    what is missing there. Raises ValueError if a file is not the published one, OSError if it can't be had.
    """
    X, y, X_test, y_test = (read(file, locate(file, data_dir)) for file in FILES)
    return Dataset(_scaled(X), y.astype(np.int64), X_test=_scaled(X_test), y_test=y_test.astype(np.int64))


def _scaled(pixels: np.ndarray) -> np.ndarray:
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def locate(file: File, data_dir: str | Path | None) -> Path:
    """The file's path, plain before gzipped, with Kaggle's spelling (.idx3 for -idx3) last; or fetches it."""
    folder = cache_folder() / "mnist" if data_dir is None else Path(data_dir)
    packed = folder / f"{file.name}.gz"
    plain = (folder / file.name, packed, folder / file.name.replace("-idx", ".idx"))
    found = next((path for path in plain if path.is_file()), None)
    if data_dir is None and found in (None, packed):
        return fetch(f"{URL}{packed.name}", packed, f"md5:{file.md5}", file.gz_bytes, "--dataset digits")
    if found is None:
        raise ValueError(f"MNIST needs {file.name} or {packed.name} in {folder}, got neither")
    return found


def read(file: File, path: Path) -> np.ndarray:
    """The file's numbers, uint8, if it is the published one."""
    raw = _bytes(path, 4 + 4 * len(file.shape) + math.prod(file.shape))
    numbers = parse_idx(raw, path)
    if numbers.shape != file.shape:
        raise ValueError(f"{path} needs shape {file.shape}, got {numbers.shape}")
    if (got := hashlib.sha256(raw).hexdigest()) != file.sha256:
        raise ValueError(f"{path} is not the published file: needs sha256 {file.sha256}, got {got}")
    return numbers


def _bytes(path: Path, size: int) -> bytes:
    """The file's content, unpacked, up to one byte more than there should be: that is enough to see."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return stream.read(size + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {one_line(error)}") from None


def parse_idx(raw: bytes, path: str | Path) -> np.ndarray:
    """The numbers of an IDX file of unsigned bytes, in its shape.

    The format: two zero bytes, the type (8 = unsigned byte), the number of axes (here up to 3), the length of
    each axis as a big-endian 32-bit number, then the numbers, last axis fastest. Raises ValueError; `path` is
    the file's name in the message.
    """
    if raw[:3] != b"\0\0\x08" or raw[3:4] not in (b"\1", b"\2", b"\3"):
        raise ValueError(
            f"{path} needs the magic number 00 00 08 and 1 to 3 axes, got {raw[:4].hex(' ') or 'nothing'}"
        )
    start = 4 + 4 * raw[3]
    if len(raw) < start:
        raise ValueError(f"{path} needs a header of {start} bytes, got {len(raw)}")
    shape = tuple(int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4))
    if len(raw) != start + math.prod(shape):
        raise ValueError(f"{path} needs {start + math.prod(shape)} bytes for shape {shape}, got {len(raw)}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)
