"""Spambase (UCI, CC BY 4.0; see SPAMBASE.md): is this e-mail spam? Ships with the package."""

import gzip
import hashlib
import io
import zlib
from pathlib import Path

import numpy as np

from data_loaders import Dataset
from data_loaders.download import one_line, regular

SHIPPED = Path(__file__).with_name("spambase.data.gz")
SHA256 = "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12"


def load(data_dir: str | Path | None = None) -> Dataset:
    """X (4601, 57) float64 and y (4601,) int64, 1 = spam; `data_dir`/spambase.data if a folder is given.

    Raises ValueError if the bytes are not those of the published file.
    """
    path = SHIPPED if data_dir is None else regular(Path(data_dir) / "spambase.data")
    raw = path.read_bytes()
    try:
        raw = gzip.decompress(raw) if data_dir is None else raw
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} cannot be unpacked: {one_line(error)}") from None
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SHA256:
        raise ValueError(f"{path} is not the published Spambase: needs sha256 {SHA256[:12]}, got {digest[:12]}")
    table = np.loadtxt(io.BytesIO(raw), delimiter=",")
    return Dataset(table[:, :-1], table[:, -1].astype(np.int64))
