"""The loader of UCI HAR, on a small stand-in of the official form."""

import hashlib
import io
import os
import re
import zipfile

import numpy as np
import pytest
from platforms import make_pipe

from data_loaders import har
from data_loaders.download import DownloadError

ROWS = {"train": 40, "test": 25}
PREFIX = "UCI HAR Dataset/"


def sha256(raw):
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture
def arrays():
    """X, y from 0 and subject of 65 rows, every activity and person among them."""
    rng = np.random.default_rng(3)
    rows = sum(ROWS.values())
    X = np.round(rng.uniform(-1, 1, (rows, 4)), 7)
    return {
        "X": X,
        "y": rng.permutation(np.arange(rows) % 6),
        "subject": rng.permutation(np.arange(rows) % 30 + 1),
    }


def texts(arrays):
    """The six official texts: three digits in an exponent, columns padded with blanks, labels from 1."""
    members, start = {}, 0
    for part, rows in ROWS.items():
        piece = {name: array[start : start + rows] for name, array in arrays.items()}
        lines = [
            "".join(f" {value: .7e}".replace("e-", "e-0").replace("e+", "e+0") for value in row)
            for row in piece["X"]
        ]
        members[f"{part}/X_{part}.txt"] = ("\n".join(lines) + "\n").encode()
        members[f"{part}/y_{part}.txt"] = "".join(f"{label + 1}\n" for label in piece["y"]).encode()
        members[f"{part}/subject_{part}.txt"] = "".join(f"{person}\n" for person in piece["subject"]).encode()
        start += rows
    return members


@pytest.fixture
def small(monkeypatch, arrays):
    """Makes the stand-in pass for the published data; its files by what they are."""
    members = texts(arrays)
    extra = {"__MACOSX/._x": b"x", "../escaped": b"x"}
    inner = zipped({PREFIX + name: raw for name, raw in members.items()} | extra)
    outer = zipped({"UCI HAR Dataset.names": b"x", har.INNER: inner})
    monkeypatch.setattr(har, "ROWS", sum(ROWS.values()))
    monkeypatch.setattr(har, "FEATURES", 4)
    monkeypatch.setattr(har, "SHA256_OUTER", sha256(outer))
    monkeypatch.setattr(har, "SHA256_INNER", sha256(inner))
    monkeypatch.setattr(har, "SHA256_X", {name: sha256(members[name]) for name in har.SHA256_X})
    return {"outer": outer, "inner": inner, "texts": members}


def put(folder, small, arrays, form):
    """Writes one form of the data into `folder`; what was written, or the folder for texts."""
    if form in ("outer", "inner"):
        path = folder / (har.OUTER if form == "outer" else har.INNER)
        path.write_bytes(small[form])
        return path
    if form == "npz":
        np.savez_compressed(folder / "mine.npz", **arrays)
        return folder / "mine.npz"
    root = folder / PREFIX if form == "folder" else folder
    for name, raw in small["texts"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw)
    return root


def assert_loaded(data, arrays):
    assert (data.X.dtype, data.y.dtype, data.subject.dtype) == (np.float64, np.int64, np.int64)
    np.testing.assert_array_equal(data.X, arrays["X"])
    np.testing.assert_array_equal(data.y, arrays["y"])
    np.testing.assert_array_equal(data.subject, arrays["subject"])
    assert data.X_test is None
    assert data.y_test is None


@pytest.mark.parametrize("form", ["outer", "inner", "folder", "contents", "npz"])
def test_load_finds_every_form_in_a_folder_and_by_name(small, arrays, tmp_path, form):
    path = put(tmp_path, small, arrays, form)
    assert_loaded(har.load(str(tmp_path)), arrays)
    assert_loaded(har.load(path), arrays)


def test_a_zip_under_another_name_is_known_by_its_content(small, arrays, tmp_path):
    (tmp_path / "renamed.zip").write_bytes(small["inner"])
    assert_loaded(har.load(tmp_path / "renamed.zip"), arrays)


def test_the_official_data_come_before_an_npz(small, arrays, tmp_path):
    put(tmp_path, small, {**arrays, "X": arrays["X"] + 1}, "npz")
    put(tmp_path, small, arrays, "contents")
    assert_loaded(har.load(tmp_path), arrays)


def test_an_empty_folder(small, tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ValueError, match=f"needs .*zip, .* or one .npz, found none in {folder}$"):
            har.load(folder)


def test_two_npz(small, arrays, tmp_path):
    for name in ("b.npz", "a.npz"):
        np.savez(tmp_path / name, **arrays)
    with pytest.raises(ValueError, match=r"one \.npz in .*, got a\.npz, b\.npz"):
        har.load(tmp_path)


@pytest.mark.parametrize("form", ["outer", "inner"])
def test_another_zip_is_refused_unread(small, tmp_path, form):
    path = tmp_path / "it.zip"
    path.write_bytes(small[form] + b"x")
    with pytest.raises(ValueError, match=r"it\.zip is not the published HAR zip: needs sha256:.*, got sha256:"):
        har.load(path)


def test_another_feature_value_is_noticed(small, arrays, tmp_path):
    put(tmp_path, small, arrays, "folder")
    path = tmp_path / PREFIX / "test/X_test.txt"
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} is not the published file"):
        har.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("train/y_train.txt", b"1\n" * 39, r"whole numbers y \(65,\), got int64 \(64,\)"),
        ("train/y_train.txt", b"7\n" * 40, r"all of 0\.\.5 in y, got 7 numbers from 0 to 6"),
        ("train/y_train.txt", b"1.5\n" * 40, "tables of numbers"),
        ("test/subject_test.txt", b"0\n" * 25, r"all of 1\.\.30 in subject, got .* from 0 to 30"),
        ("test/subject_test.txt", b"1 2\n" * 25, "tables of numbers"),
        ("test/subject_test.txt", b"\xff\n" * 25, "tables of numbers"),
    ],
)
def test_wrong_labels_and_persons_are_noticed(small, arrays, tmp_path, name, text, message):
    put(tmp_path, small, arrays, "contents")
    (tmp_path / name).write_bytes(text)
    with pytest.raises(ValueError, match=f"^{tmp_path} needs {message}.*$"):
        har.load(tmp_path)


def test_an_incomplete_folder(small, arrays, tmp_path):
    put(tmp_path, small, arrays, "contents")
    (tmp_path / "test/y_test.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"test/y_test\.txt"):
        har.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": lambda X: X[:-1]}, r"floats X \(65, 4\), got float64 \(64, 4\)"),
        ({"X": lambda X: X[:, :-1]}, r"floats X \(65, 4\), got float64 \(65, 3\)"),
        ({"X": lambda X: (100 * X).astype(int)}, r"floats X \(65, 4\), got int64 \(65, 4\)"),
        ({"X": lambda X: np.where(X > 0.9, np.nan, X)}, r"finite X, got \d+ values that are not"),
        ({"X": lambda X: np.where(X > 0.9, -np.inf, X)}, r"finite X, got \d+ values that are not"),
        ({"y": lambda y: y + 1}, r"all of 0\.\.5 in y, got 6 numbers from 1 to 6"),
        ({"y": lambda y: y[:, None]}, r"whole numbers y \(65,\), got int64 \(65, 1\)"),
        ({"y": lambda y: y * 1.0}, r"whole numbers y \(65,\), got float64"),
        ({"subject": lambda s: s - 1}, r"all of 1\.\.30 in subject, got 30 numbers from 0 to 29"),
        ({"subject": lambda s: np.where(s == 7, 8, s)}, r"all of 1\.\.30 in subject, got 29 numbers"),
        ({"y": lambda y: y.astype(object)}, "plain arrays: Object arrays cannot be loaded"),
    ],
)
def test_a_wrong_npz_says_what_is_wrong(small, arrays, tmp_path, change, message):
    changed = {name: change.get(name, lambda a: a)(array) for name, array in arrays.items()}
    np.savez(tmp_path / "it.npz", **changed)
    with pytest.raises(ValueError, match=rf"it\.npz needs {message}.*$"):
        har.load(tmp_path)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32])
def test_an_npz_may_be_stored_narrow(small, arrays, tmp_path, dtype):
    X = arrays["X"].astype(np.float32)
    np.savez(tmp_path / "it.npz", X=X, y=arrays["y"].astype(dtype), subject=arrays["subject"].astype(dtype))
    assert_loaded(har.load(tmp_path), {**arrays, "X": X})


def test_an_npz_without_persons(small, arrays, tmp_path):
    np.savez(tmp_path / "it.npz", X=arrays["X"], y=arrays["y"])
    with pytest.raises(ValueError, match=r"it\.npz needs one member 'subject\.npy', got 0"):
        har.load(tmp_path)


SHAPES = (b"(1000000000000, 4)", b"(99999999999, 99999999999)", b"(65, 5)", b"(-1, 4)", b"'a'", b"((65, 4")
SHAPES += (b"(9999999999999999999999, 4)", b"(True, 4)")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [*((b"(65, 4)", shape) for shape in SHAPES), (b"'<f8'", b"('<f8',)"), (b"{'descr'", b"{{}: 1, 'descr'")],
)
def test_an_npz_with_a_lying_header(small, arrays, tmp_path, right, wrong):
    file = io.BytesIO()
    np.save(file, arrays["X"])
    X = file.getvalue().replace(right, wrong)
    np.savez(tmp_path / "it.npz", y=arrays["y"], subject=arrays["subject"])
    with zipfile.ZipFile(tmp_path / "it.npz", "a") as archive:
        archive.writestr("X.npy", X)
    with pytest.raises(ValueError, match=r"it\.npz needs .*$"):
        har.load(tmp_path)


@pytest.mark.parametrize("name", har.TEXTS[1:])
def test_a_pipe_in_place_of_a_text_keeps_nobody_waiting(small, arrays, tmp_path, name):
    put(tmp_path, small, arrays, "folder")
    (path,) = tmp_path.rglob(name.partition("/")[2])
    path.unlink()
    make_pipe(path)
    with pytest.raises(ValueError, match=f"{path.name} needs to be a regular file"):
        har.load(tmp_path)


def test_a_pipe_is_no_npz(small, arrays, tmp_path):
    put(tmp_path, small, arrays, "npz")
    make_pipe(tmp_path / "a.npz")
    assert_loaded(har.load(tmp_path), arrays)


# --- Fetching -----------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache folder of this data set; a fetch meets a closed door."""
    monkeypatch.setenv("REFIMPL_DATA", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(har, "URL", f"http://127.0.0.1:1/{har.OUTER}")
    (tmp_path / "har").mkdir()
    return tmp_path / "har"


@pytest.mark.parametrize("form", ["outer", "inner", "folder", "npz"])
def test_what_was_put_in_the_cache_is_used(small, arrays, cache, form):
    put(cache, small, arrays, form)
    assert_loaded(har.load(), arrays)


@pytest.mark.parametrize("there", [False, True])
def test_fetches_if_the_zip_is_missing_or_damaged(small, arrays, cache, monkeypatch, there):
    if there:
        (cache / har.OUTER).write_bytes(small["outer"][:-1])

    def served(url, path, checksum, limit):
        assert (url, checksum) == (har.URL, har.SHA256_OUTER)
        assert limit >= len(small["outer"])
        path.write_bytes(small["outer"])
        return path

    monkeypatch.setattr(har, "fetch", served)
    assert_loaded(har.load(), arrays)


def test_no_network(small, cache):
    with pytest.raises(DownloadError, match=f"{re.escape(har.URL)} .*put it in {cache}$"):
        har.load()
    assert [*cache.iterdir()] == []


@pytest.mark.skipif("REFIMPL_TEST_DATA" not in os.environ, reason="REFIMPL_TEST_DATA names no folder with HAR")
def test_real_data():
    data = har.load(os.path.join(os.environ["REFIMPL_TEST_DATA"], "har"))
    assert data.X.shape == (10299, 561)
    assert np.bincount(data.y).tolist() == [1722, 1544, 1406, 1777, 1906, 1944]
