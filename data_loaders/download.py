"""Official files: fetched once into a cache folder, checked before use; zips read without unpacking."""

import contextlib
import hashlib
import http.client
import lzma
import os
import secrets
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import IO, Any

TIMEOUT = 30.0  # seconds without a byte
SLOWEST = 1000  # bytes per second: a server that trickles is as good as one that hangs
CHUNK = 1 << 16


class DownloadError(OSError):
    """One line: what failed, the address to fetch by hand, the folder to put it in, what to use instead."""


def cache_folder() -> Path:
    """REFIMPL_DATA, or `refimpl` in the platform's folder for caches. Raises ValueError if there is none."""
    chosen = os.environ.get("REFIMPL_DATA")
    try:
        return Path(chosen).expanduser() if chosen else _platform_cache(sys.platform) / "refimpl"
    except RuntimeError as error:  # a user without a home folder, or no such user
        said = f"REFIMPL_DATA={chosen}" if chosen else "REFIMPL_DATA is not set"
        raise ValueError(f"the data need a folder: {error} {said}; --data-dir names one") from None


def _platform_cache(platform: str) -> Path:
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def regular(path: Path) -> Path:
    """`path`, unless it is no regular file: a pipe or a device would keep us waiting. Raises ValueError."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} needs to be a regular file")
    return path


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The file's checksum, written as `fetch` takes it: "sha256:<hex>"."""
    state = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            state.update(chunk)
    return f"{algorithm}:{state.hexdigest()}"


def fetch(url: str, path: Path, checksum: str, limit: int, instead: str = "", timeout: float = TIMEOUT) -> Path:
    """`path`, fetched from `url` unless it is there already with the right checksum.

    checksum: "sha256:<hex>" or "md5:<hex>". limit: more bytes than this are not taken. instead: the option
    that needs no download, for the error message. `path` appears only when it is complete and right.
    Raises DownloadError.
    """
    algorithm = checksum.partition(":")[0]
    present = path.is_file()
    if present and digest(path, algorithm) == checksum:
        return path
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # a name that nobody can have prepared
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, part, limit, timeout)
        if (got := digest(part, algorithm)) != checksum:
            raise ValueError(f"needs {_short(checksum)}, got {_short(got)}")
        part.replace(path)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        cause = error.reason if type(error) is urllib.error.URLError else error
        damaged = f"{path} is not the published file, and " if present else ""
        by_hand = f"fetch it by hand and put it in {path.parent}" + (f", or use {instead}" if instead else "")
        raise DownloadError(f"{damaged}cannot fetch {url} ({one_line(cause)}): {by_hand}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return path


def _receive(url: str, part: Path, limit: int, timeout: float) -> None:
    """Writes what the server sends to `part`. Raises if that is cut short, too long or too slow.

    In a thread of its own: urllib would follow headers, chunk extensions and trailers without end.
    """
    start, done = time.monotonic(), Future[None]()

    def work() -> None:
        try:
            _copy(url, file, limit, timeout)
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    with part.open("xb", buffering=0) as file:  # which is closed to a thread that we no longer wait for
        threading.Thread(target=work, daemon=True).start()
        while not wait([done], 0.1).done:
            if time.monotonic() - start > timeout + os.fstat(file.fileno()).st_size / SLOWEST:
                raise TimeoutError(f"slower than {SLOWEST} bytes a second")
    done.result()


def _copy(url: str, file: IO[bytes], limit: int, timeout: float) -> None:
    """Copies the bytes at this address to the file, however slowly they come."""
    with urllib.request.urlopen(url, timeout=timeout) as response:
        total, got = response.length, 0
        if total is not None and total > limit:
            raise ValueError(f"needs at most {limit} bytes, the server announces {total}")
        with _progress(url, total) as bar:
            while chunk := response.read1(CHUNK):  # what has arrived, so that the file grows with it
                got += len(chunk)
                if got > limit:
                    raise ValueError(f"needs at most {limit} bytes, got more")
                file.write(chunk)
                if bar is not None:
                    bar.update(len(chunk))
    if total is not None and got < total:
        raise ValueError(f"needs {total} bytes, the connection ended after {got}")


def _progress(url: str, total: int | None) -> Any:
    """A bar, or else one line."""
    bar = progress_bar(total=total, unit="B", unit_scale=True, desc=url.rpartition("/")[2])
    if bar is not None:
        return bar
    with contextlib.suppress(OSError):  # nobody is there to read it
        print(f"fetching {url}", file=sys.stderr, flush=True)
    return contextlib.nullcontext()


def progress_bar(**options: Any) -> Any:
    """A bar of tqdm, to be updated; None where there is no terminal or no tqdm."""
    if not sys.stderr.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    columns, rows = shutil.get_terminal_size()  # 80, 24 of a terminal that does not say
    return tqdm(**options, ncols=columns, nrows=rows, leave=False)


def one_line(error: BaseException | str) -> str:
    """What the error says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _short(checksum: str) -> str:
    algorithm, _, number = checksum.partition(":")
    return f"{algorithm} {number[:16]}..."


def read_zip(source: Path | IO[bytes], names: Sequence[str], limit: int, where: str) -> list[bytes]:
    """The bytes of the named members, read in memory: no other member is touched, no path is followed.

    limit: the most bytes that all of them together may unpack to; a member never yields more than the
    size that the zip declares for it. where: the zip's name in error messages. Raises ValueError.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.namelist()
            for name in names:
                if members.count(name) != 1:
                    raise ValueError(f"{where} needs one member {name!r}, got {members.count(name)}")
            size = sum(archive.getinfo(name).file_size for name in names)
            if size > limit:
                raise ValueError(f"{where} needs to unpack to at most {limit} bytes, got {size}")
            return [archive.read(name) for name in names]
    # A locked member or an unknown compression is a RuntimeError; the others are damage.
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise ValueError(f"{where} cannot be unpacked: {error}") from None
