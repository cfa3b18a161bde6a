"""What not every platform has: tests that need it are skipped there, and say why."""

import os
from pathlib import Path

import pytest

WINDOWS = os.name == "nt"
needs_shell = pytest.mark.skipif(WINDOWS, reason="Windows has no POSIX shell")
needs_signals = pytest.mark.skipif(WINDOWS, reason="Windows ends a process without a signal")
needs_users = pytest.mark.skipif(WINDOWS, reason="Windows guesses where anybody's home folder is")
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def make_pipe(path):
    """Makes a named pipe."""
    if WINDOWS:
        pytest.skip("Windows has no pipes among its files")
    os.mkfifo(path)


def link(path, target):
    """Makes a link, which on Windows needs a permission."""
    try:
        path.symlink_to(target)
    except OSError as error:
        pytest.skip(f"no links here: {error}")
