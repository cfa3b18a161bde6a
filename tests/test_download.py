"""Downloads from a local server that misbehaves in every way, and zips that do."""

import contextlib
import hashlib
import io
import os
import re
import struct
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from platforms import link, needs_users

from data_loaders import download
from data_loaders.download import DownloadError, cache_folder, fetch, read_zip

CONTENT = bytes(range(256)) * 2000
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        with contextlib.suppress(ConnectionError):  # when the client has had enough
            getattr(self, self.path[1:].replace("-", "_"))()

    def send(self, status=200, length=None, **headers):
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def right(self):
        self.send(length=len(CONTENT))
        self.wfile.write(CONTENT)

    def right_without_length(self):
        self.send()
        self.wfile.write(CONTENT)

    def redirected(self):
        self.send(302, 0, Location="/right")

    def wrong(self):
        self.send(length=len(CONTENT))
        self.wfile.write(CONTENT[::-1])

    def half(self):
        self.send(length=len(CONTENT))
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def half_without_length(self):
        self.send()
        self.wfile.write(CONTENT[: len(CONTENT) // 2])

    def missing(self):
        self.send_error(404)

    def garbled(self):
        self.wfile.write(b"what?\r\n\r\n")

    def hang(self):
        self.server.over.wait(30)

    def hang_midway(self):
        self.send(length=len(CONTENT))
        self.wfile.write(CONTENT[:1000])
        self.server.over.wait(30)

    def trickle(self):
        self.send(length=len(CONTENT))
        while not self.server.over.wait(0.02):
            self.wfile.write(b"x")

    def lines(self, text):
        """Fast, without end, and never of the body."""
        while not self.server.over.wait(0.001):
            self.wfile.write(text)

    def goes_on_with_100_continue(self):
        self.lines(b"HTTP/1.1 100 Continue\r\n\r\n")

    def trickles_headers(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not self.server.over.wait(0.02):
            self.wfile.write(b"x")

    def trickles_a_chunk_extension(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=")
        while not self.server.over.wait(0.02):
            self.wfile.write(b"x")

    def endless_trailers(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")
        self.lines(b"X: y\r\n")

    def announces_too_much(self):
        self.send(length=10**12)
        self.wfile.write(CONTENT)

    def announces_a_byte_too_much(self):
        self.send(length=len(CONTENT) + 1)
        self.wfile.write(CONTENT + b"x")

    def sends_a_byte_too_much(self):
        self.send()
        self.wfile.write(CONTENT + b"x")

    def endless(self):
        self.send()
        while not self.server.over.is_set():
            self.wfile.write(CONTENT)

    def local_file(self):
        self.send(302, 0, Location="file:///etc/hostname")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.over, server.requests = threading.Event(), []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def url(server, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server.requests.clear()
    return f"http://127.0.0.1:{server.server_port}"


@pytest.mark.parametrize("checksum", [SHA256, MD5])
@pytest.mark.parametrize("page", ["right", "right-without-length", "redirected"])
def test_the_right_bytes_arrive_alone(url, tmp_path, page, checksum):
    path = tmp_path / "new" / "folder" / "file"
    assert fetch(f"{url}/{page}", path, checksum, len(CONTENT)) == path
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_is_there_is_not_fetched_again(server, url, tmp_path):
    for _ in range(2):
        fetch(f"{url}/right", tmp_path / "file", SHA256, len(CONTENT))
    assert server.requests == ["/right"]


def test_a_link_that_somebody_has_planted_in_a_shared_cache_is_not_followed(url, tmp_path, monkeypatch):
    """Neither under the name that a process would choose by its number, nor if it is guessed."""
    precious, cache = tmp_path / "precious", tmp_path / "cache"
    precious.write_text("precious", encoding="utf-8")
    cache.mkdir()
    link(cache / f".file.{os.getpid()}.part", precious)
    assert fetch(f"{url}/right", cache / "file", SHA256, 10**6).read_bytes() == CONTENT
    monkeypatch.setattr(download.secrets, "token_hex", lambda _: "guessed")
    link(cache / ".other.guessed.part", precious)
    with pytest.raises(DownloadError, match="File exists"):
        fetch(f"{url}/right", cache / "other", SHA256, 10**6)
    assert precious.read_text(encoding="utf-8") == "precious"


def test_a_damaged_file_is_fetched_again(url, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT[:-1])
    fetch(f"{url}/right", path, SHA256, len(CONTENT))
    assert path.read_bytes() == CONTENT


FAILURES = {
    "wrong": r"needs sha256 \w{16}\.\.\., got sha256 \w{16}",
    "half": f"needs {len(CONTENT)} bytes, the connection ended after {len(CONTENT) // 2}",
    "half-without-length": "needs sha256",
    "missing": "404",
    "garbled": r"what\?",
    "hang": "timed out|slower than",
    "hang-midway": "timed out|slower than",
    "trickle": "slower than",
    "goes-on-with-100-continue": "slower than",
    "trickles-headers": "slower than",
    "trickles-a-chunk-extension": "slower than",
    "endless-trailers": "slower than",
    "announces-too-much": f"at most {len(CONTENT)} bytes, the server announces {10**12}",
    "announces-a-byte-too-much": f"at most {len(CONTENT)} bytes, the server announces {len(CONTENT) + 1}",
    "sends-a-byte-too-much": f"at most {len(CONTENT)} bytes, got more",
    "endless": f"at most {len(CONTENT)} bytes, got more",
    "local-file": "not allowed",
}


# http.client itself leaks the socket of an answer that is no HTTP.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("page", FAILURES)
def test_a_failure_is_one_helpful_line_and_leaves_nothing(url, tmp_path, page):
    with pytest.raises(DownloadError, match=FAILURES[page]) as caught:
        fetch(f"{url}/{page}", tmp_path / "file", SHA256, len(CONTENT), "--dataset digits", timeout=0.3)
    message = str(caught.value)
    assert "\n" not in message
    assert f"{url}/{page}" in message
    assert f"put it in {tmp_path}, or use --dataset digits" in message
    assert list(tmp_path.iterdir()) == []


def test_without_an_alternative_none_is_named(url, tmp_path):
    with pytest.raises(DownloadError, match=f"put it in {re.escape(str(tmp_path))}$"):
        fetch(f"{url}/missing", tmp_path / "file", SHA256, len(CONTENT))


def test_no_server_at_all(tmp_path, url, server):
    with pytest.raises(DownloadError, match=r"/file \(\[\w+ \d+\] .*refused.*\): fetch it by hand"):
        fetch("http://127.0.0.1:1/file", tmp_path / "file", SHA256, 10)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_over_a_damaged_file_says_so_and_keeps_it_unused(url, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"put here by hand, but the wrong one")
    for _ in range(2):
        with pytest.raises(DownloadError, match=f"^{re.escape(str(path))} is not the published file"):
            fetch(f"{url}/wrong", path, SHA256, len(CONTENT))
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made(url, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"exists|Not a directory"):
        fetch(f"{url}/right", tmp_path / "file" / "below", SHA256, len(CONTENT))


def test_an_interrupt_leaves_nothing(url, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "digest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(f"{url}/right", tmp_path / "file", SHA256, len(CONTENT))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("tqdm", [True, False])
def test_progress_goes_to_stderr(url, tmp_path, monkeypatch, capsys, terminal, tqdm):
    if tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)  # import fails
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    fetch(f"{url}/right", tmp_path / "file", SHA256, len(CONTENT))
    out, err = capsys.readouterr()
    assert out == ""
    assert ("%" in err and "right" in err) if terminal and tqdm else err == f"fetching {url}/right\n"


def test_a_terminal_that_does_not_say_its_size_gets_a_bar_too(monkeypatch):
    """tqdm hides a bar where it finds no rows for it."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=lambda **options: options))
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((0, 0)))
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)
    bar = download.progress_bar(total=3)
    assert (bar["total"], bar["ncols"], bar["nrows"]) == (3, 80, 24)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/refimpl"),
        ("linux", {"XDG_CACHE_HOME": "xdg"}, "xdg/refimpl"),
        ("darwin", {"XDG_CACHE_HOME": "xdg"}, "home/Library/Caches/refimpl"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/refimpl"),
        ("win32", {"LOCALAPPDATA": "local", "REFIMPL_DATA": "mine"}, "mine"),
        ("linux", {"XDG_CACHE_HOME": "xdg", "REFIMPL_DATA": "~/mine"}, "home/mine"),
    ],
)
def test_cache_folder(monkeypatch, platform, variables, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "REFIMPL_DATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (variables | {"HOME": "home", "USERPROFILE": "home"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected)


@needs_users
@pytest.mark.parametrize("value", [None, "~nosuchuser/data"])
def test_a_user_without_a_home_folder_is_told_what_to_do(monkeypatch, value):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("REFIMPL_DATA", raising=False)
    if value:
        monkeypatch.setenv("REFIMPL_DATA", value)
    else:
        monkeypatch.setattr(Path, "home", lambda: Path("~nosuchuser").expanduser())
    said = f"REFIMPL_DATA={value}" if value else "REFIMPL_DATA is not set"
    with pytest.raises(ValueError, match=f"^the data need a folder: .*{said}; --data-dir names one$"):
        cache_folder()


# --- Zips ---------------------------------------------------------------------------------------------------


def zipped(members, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content, **options)
    return file


def test_only_the_named_members_are_read_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = zipped([("../escaped", b"x"), ("a/b", b"right"), ("/absolute", b"x" * 10**7), ("c", b"too")])
    assert read_zip(file, ["c", "a/b"], 8, "it.zip") == [b"too", b"right"]
    assert [*tmp_path.iterdir()] == []
    assert not (tmp_path.parent / "escaped").exists()


@pytest.mark.parametrize("members", [[], [("b", b"x")], [("A", b"x")]])
def test_a_missing_member(members):
    with pytest.raises(ValueError, match=r"it\.zip needs one member 'a', got 0"):
        read_zip(zipped(members), ["a"], 100, "it.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name():
    with pytest.raises(ValueError, match=r"it\.zip needs one member 'a', got 2"):
        read_zip(zipped([("a", b"x"), ("a", b"y")]), ["a"], 100, "it.zip")


def test_the_size_limit_is_on_the_sum():
    file = zipped([("a", bytes(600)), ("b", bytes(400))])
    assert [len(raw) for raw in read_zip(file, ["a", "b"], 1000, "it.zip")] == [600, 400]
    with pytest.raises(ValueError, match=r"it\.zip needs to unpack to at most 999 bytes, got 1000"):
        read_zip(file, ["a", "b"], 999, "it.zip")


DIRECTORY, MEMBER = b"PK\1\2", b"PK\3\4"


def patched(file, place, offset, form, value):
    """The zip with another value in the first member's entry in the directory, or before the member itself."""
    raw = bytearray(file.getvalue())
    struct.pack_into(form, raw, raw.index(place) + offset, value)
    return io.BytesIO(raw)


BAD_ZIPS = {
    "not a zip": io.BytesIO(b"PK, or so it seems"),
    "cut short": io.BytesIO(zipped([("a", CONTENT)]).getvalue()[:-30]),
    "a bomb that understates its size": patched(zipped([("a", bytes(10**7))]), DIRECTORY, 24, "<L", 10),
    "wrong checksum": patched(zipped([("a", CONTENT)]), DIRECTORY, 16, "<L", 1),
    "unknown compression": patched(zipped([("a", CONTENT)]), DIRECTORY, 10, "<H", 77),
    "locked": patched(zipped([("a", CONTENT)]), DIRECTORY, 8, "<H", 1),
    "no such block type": patched(zipped([("a", CONTENT)]), MEMBER, 31, "<B", 7),
}


@pytest.mark.parametrize("kind", BAD_ZIPS)
def test_a_bad_zip_is_one_line(kind):
    with pytest.raises(ValueError, match=r"^it\.zip cannot be unpacked: .+$"):
        read_zip(BAD_ZIPS[kind], ["a"], 10**6, "it.zip")
