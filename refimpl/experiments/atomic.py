"""Files that are there in full or not at all."""

import contextlib
import itertools
import secrets
import time
from collections.abc import Callable
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Writes all or nothing: to a file beside `path`, which is then renamed. Raises OSError, naming `path`."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")  # others may be writing the same file
    try:
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        patiently(lambda: part.replace(path))
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def remove(path: Path) -> None:
    """Removes the file, if it is there and can be removed: what it was for is over."""
    with contextlib.suppress(OSError):
        patiently(path.unlink)


def patiently(rename: Callable[[], object]) -> None:
    """Calls it again for a second while it is not permitted: on Windows not while somebody reads the file."""
    for _ in range(20):
        with contextlib.suppress(PermissionError):
            rename()
            return
        time.sleep(0.05)
    rename()


def make_folder(path: Path) -> None:
    """Makes the folder, if it is not there, and tries whether files can be written to it. Raises OSError."""
    path.mkdir(parents=True, exist_ok=True)
    probe = path / f".{secrets.token_hex(4)}.probe"
    try:
        probe.write_bytes(b"\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def set_aside(path: Path) -> Path:
    """Renames whatever is at `path`: name.1.aside, or with the next number that is free."""
    names = (path.with_name(f"{path.name}.{number}.aside") for number in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    with contextlib.suppress(FileNotFoundError):  # another command was faster
        path.rename(aside)
    return aside
