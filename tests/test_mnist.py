"""The IDX files of MNIST, on a small stand-in of the same form, and scikit-learn's digits."""

import functools
import gzip
import hashlib
import http.server
import os
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_loaders import digits, mnist
from data_loaders.download import DownloadError
from data_loaders.mnist import parse_idx


def idx(numbers):
    """An IDX file, written from the format's description."""
    header = struct.pack(f">HBB{numbers.ndim}I", 0, 8, numbers.ndim, *numbers.shape)
    return header + numbers.tobytes()


@pytest.fixture
def small(monkeypatch):
    """{name: numbers}: 12 training and 7 test images that pass for the published ones."""
    rng = np.random.default_rng(5)
    arrays, files = {}, []
    for file in mnist.FILES:
        rows = 12 if "train" in file.name else 7
        numbers = rng.integers(0, 256 if "images" in file.name else 10, (rows, *file.shape[1:]), np.uint8)
        packed = gzip.compress(idx(numbers), mtime=0)
        files.append(
            mnist.File(
                file.name,
                numbers.shape,
                hashlib.sha256(idx(numbers)).hexdigest(),
                hashlib.md5(packed).hexdigest(),
                len(packed),
            )
        )
        arrays[file.name] = numbers
    monkeypatch.setattr(mnist, "FILES", tuple(files))
    return arrays


def write(folder, arrays, form):
    for name, numbers in arrays.items():
        if form == "gzipped":
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(numbers), mtime=0))
        else:
            spelling = name if form == "plain" else name.replace("-idx", ".idx")
            (folder / spelling).write_bytes(idx(numbers))


@pytest.mark.parametrize("form", ["plain", "gzipped", "Kaggle's spelling"])
@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_load_reads_every_form(small, tmp_path, form, kind):
    write(tmp_path, small, form)
    data = mnist.load(kind(tmp_path))
    images, labels, test_images, test_labels = small.values()
    assert data.subject is None
    for got, pixels in ((data.X, images), (data.X_test, test_images)):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, (pixels / 255).astype(np.float32))
    for got, expected in ((data.y, labels), (data.y_test, test_labels)):
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("missing", [file.name for file in mnist.FILES])
def test_a_missing_file_is_named(small, tmp_path, missing):
    write(tmp_path, small, "gzipped")
    (tmp_path / f"{missing}.gz").unlink()
    with pytest.raises(ValueError, match=rf"needs {missing} or {missing}\.gz in {tmp_path}, got neither"):
        mnist.load(tmp_path)


def test_another_pixel_is_noticed(small, tmp_path):
    small["t10k-images-idx3-ubyte"][3, 4, 5] ^= 1
    write(tmp_path, small, "gzipped")
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz is not the published file: needs sha256"):
        mnist.load(tmp_path)


def test_another_count_is_noticed(small, tmp_path):
    write(tmp_path, small | {"train-labels-idx1-ubyte": np.zeros(11, np.uint8)}, "plain")
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte needs shape \(12,\), got \(11,\)"):
        mnist.load(tmp_path)


def test_labels_in_place_of_images_are_noticed(small, tmp_path):
    write(tmp_path, small | {"train-images-idx3-ubyte": small["train-labels-idx1-ubyte"]}, "plain")
    with pytest.raises(ValueError, match=r"needs shape \(12, 28, 28\), got \(12,\)"):
        mnist.load(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[: len(raw) // 2], "cannot be unpacked"),
        (lambda raw: raw[:10] + b"\7" + raw[11:], "cannot be unpacked"),
        (lambda raw: b"<html>no such page</html>", "cannot be unpacked"),
        (lambda raw: b"", "needs the magic number 00 00 08 and 1 to 3 axes, got nothing"),
        (lambda raw: gzip.compress(gzip.decompress(raw) + bytes(10**8)), "needs 9424 bytes .* got 9425"),
    ],
    ids=["cut short", "no such block type", "a page", "empty", "a bomb"],
)
def test_a_damaged_gz_is_one_line(small, tmp_path, damage, message):
    write(tmp_path, small, "gzipped")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=f"^{path} {message}.*$"):
        mnist.load(tmp_path)


# --- Fetching -----------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that is served where the loader fetches from; the cache folder is `tmp_path`/cache."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setattr(mnist, "URL", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("REFIMPL_DATA", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield folder
        server.shutdown()
        thread.join()


def test_fetches_once_what_is_not_there(small, site, tmp_path):
    write(site, small, "gzipped")
    first = mnist.load()
    for path in site.iterdir():
        path.unlink()
    again = mnist.load()
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(again.y, small["train-labels-idx1-ubyte"])
    assert sorted(path.name for path in (tmp_path / "cache" / "mnist").iterdir()) == [
        f"{name}.gz" for name in sorted(small)
    ]


def test_a_damaged_cache_is_fetched_again(small, site, tmp_path):
    write(site, small, "gzipped")
    cached = tmp_path / "cache" / "mnist" / "train-labels-idx1-ubyte.gz"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"half of a")
    assert len(mnist.load().y) == 12


def test_plain_files_put_in_the_cache_by_hand_are_used(small, site, tmp_path):
    folder = tmp_path / "cache" / "mnist"
    folder.mkdir(parents=True)
    write(folder, small, "plain")
    assert len(mnist.load().y) == 12


def test_a_failing_fetch_names_the_alternative(small, site, tmp_path):
    with pytest.raises(DownloadError, match=r"train-images.*404.*/cache/mnist, or use --dataset digits$"):
        mnist.load()
    assert [*(tmp_path / "cache" / "mnist").iterdir()] == []


# --- The format ---------------------------------------------------------------------------------------------

arrays = st.lists(st.integers(0, 5), min_size=1, max_size=3).flatmap(
    lambda shape: st.binary(min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda raw: np.frombuffer(raw, np.uint8).reshape(shape)
    )
)


@given(arrays)
def test_parse_idx_reads_what_the_format_describes(numbers):
    got = parse_idx(idx(numbers), "it")
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, numbers)


@given(arrays, st.data())
def test_parse_idx_refuses_missing_and_extra_bytes(numbers, data):
    raw = idx(numbers)
    cut = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:cut], raw + b"x"):
        with pytest.raises(ValueError, match=r"^it needs .* got"):
            parse_idx(wrong, "it")


@settings(max_examples=300)
@given(
    st.binary(max_size=40).flatmap(lambda raw: st.sampled_from([raw, b"\0\0\x08" + raw, b"\0\0\x08\3" + raw]))
)
def test_parse_idx_raises_nothing_but_value_errors(raw):
    try:
        parse_idx(raw, "it")
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize("header", ["00 00 0d 01", "00 01 08 01", "00 00 08 00", "00 00 08 04", "1f 8b 08 00"])
def test_parse_idx_shows_a_wrong_magic_number(header):
    with pytest.raises(ValueError, match=f"^it needs the magic number 00 00 08 and 1 to 3 axes, got {header}$"):
        parse_idx(bytes.fromhex(header) + bytes(100), "it")


# --- The real images ----------------------------------------------------------------------------------------


@pytest.mark.skipif(
    "REFIMPL_TEST_DATA" not in os.environ, reason="REFIMPL_TEST_DATA names no folder with MNIST"
)
def test_the_published_files():
    data = mnist.load(os.path.join(os.environ["REFIMPL_TEST_DATA"], "mnist"))
    assert data.X.shape == (60000, 28, 28)
    assert np.bincount(data.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.X_test.shape == (10000, 28, 28)


def test_digits():
    data = digits.load()
    for X, y, rows in ((data.X, data.y, 1433), (data.X_test, data.y_test, 364)):
        assert X.shape == (rows, 28, 28)
        assert X.dtype == np.float32
        assert (X.min(), X.max()) == (0, 1)
        assert y.dtype == np.int64
        shares = np.bincount(y) / rows
        assert len(shares) == 10
        assert np.ptp(shares) < 0.01  # every digit as often, in both sets


def test_digits_are_the_small_images_enlarged():
    """Means over 3.5 x 3.5 pixels give the 8 x 8 image back, up to the interpolation; the labels still fit."""
    from sklearn.datasets import load_digits

    data, bundle = digits.load(), load_digits()
    first_zero = np.flatnonzero(bundle.target == 0)[0]
    assert data.y_test[0] == 0
    blocks = np.kron(bundle.images[first_zero] / 16, np.ones((7, 7))).reshape(28, 2, 28, 2).mean(axis=(1, 3))
    assert np.corrcoef(blocks.ravel(), data.X_test[0].ravel())[0, 1] > 0.95
    means = np.stack([data.X[data.y == k].mean(axis=0).ravel() for k in range(10)])
    nearest = np.argmin(((data.X_test.reshape(-1, 1, 784) - means) ** 2).sum(axis=2), axis=1)
    assert np.mean(nearest == data.y_test) > 0.85


def test_digits_share_no_image_between_training_and_test():
    data = digits.load()
    seen = {image.tobytes() for image in data.X}
    assert not any(image.tobytes() in seen for image in data.X_test)
    np.testing.assert_array_equal(data.X, digits.load().X)


def test_digits_take_no_folder(tmp_path):
    with pytest.raises(ValueError, match="need no data folder"):
        digits.load(tmp_path)
