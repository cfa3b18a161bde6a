import gzip
from pathlib import Path

import numpy as np
import pytest
from platforms import make_pipe

from data_loaders import spambase


def test_the_shipped_data_are_complete():
    data = spambase.load()
    assert data.X.shape == (4601, 57)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.int64
    assert np.bincount(data.y).tolist() == [2788, 1813]
    assert data.X[0, 1] == 0.64  # the file's first row
    assert data.X[0, -1] == 278


def test_a_folder_of_ones_own(tmp_path):
    (tmp_path / "spambase.data").write_bytes(gzip.decompress(spambase.SHIPPED.read_bytes()))
    assert (spambase.load(tmp_path).X == spambase.load().X).all()


def test_changed_bytes_are_refused(tmp_path):
    (tmp_path / "spambase.data").write_bytes(gzip.decompress(spambase.SHIPPED.read_bytes())[:-5])
    with pytest.raises(ValueError, match="not the published Spambase: needs sha256 b1ef93de71f9, got "):
        spambase.load(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:5000],
        lambda raw: b"no gzip",
        lambda raw: raw[:-8] + bytes(8),
        lambda raw: raw[:12] + b"\xff" + raw[13:],
    ],
    ids=["cut short", "no gzip", "wrong checksum", "a damaged byte"],
)
def test_a_corrupt_archive_is_refused(tmp_path, monkeypatch, damage):
    path = tmp_path / "spambase.data.gz"
    path.write_bytes(damage(spambase.SHIPPED.read_bytes()))
    monkeypatch.setattr(spambase, "SHIPPED", path)
    with pytest.raises(ValueError, match=r"spambase\.data\.gz cannot be unpacked"):
        spambase.load()


@pytest.mark.parametrize("make", [make_pipe, Path.mkdir])
def test_only_a_regular_file_is_read(tmp_path, make):
    make(tmp_path / "spambase.data")
    with pytest.raises(ValueError, match=r"spambase\.data needs to be a regular file"):
        spambase.load(tmp_path)
