"""How a command ends, with its worker processes: refused, by a signal, into a closed pipe, on a full disk.

What Windows does otherwise about signals and processes is here, and nowhere else.
"""

import argparse
import contextlib
import difflib
import functools
import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn, TextIO

WINDOWS = sys.platform == "win32"
# What stops a command, beside Ctrl-C. Windows delivers no SIGTERM; closing its window is a SIGBREAK there.
STOP: signal.Signals = getattr(signal, "SIGBREAK", signal.SIGTERM)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Ends with one line and status 2."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuses a name that is not among the choices."""
        if action.choices and value not in action.choices:
            raise argparse.ArgumentError(action, unknown("name", value, action.choices))


def unknown(what: str, name: str, names: Iterable[str]) -> str:
    """A line on a name that is none of these: which of them look like it, or all if none does."""
    names = list(names)
    similar = difflib.get_close_matches(name, names, cutoff=0.5)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"choose from {', '.join(names)}"
    return f"unknown {what} {name!r}, {hint}"


def ended(command: Callable[[], int], interrupted: str = "interrupted", failed: int = 1) -> int:
    """Runs the command and returns its exit status; reports failures from outside in one line on stderr.

    130 after Ctrl-C and 143 after SIGTERM, which stops worker processes as Ctrl-C does; on Windows 149 after
    SIGBREAK. `failed` if a file or standard output can't be written, or memory runs out. 141 if nobody reads
    standard output any more, without a word; Windows cannot tell that from a file that can't be written.
    """
    open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # in ASCII the table has ? for its plus-minus sign
    os.environ.pop("MPLBACKEND", None)  # matplotlib does not import if it is wrong; our pictures are files
    with stop_like_ctrl_c():
        try:
            try:
                return command()
            finally:
                sys.stdout.flush()  # now: when Python ends it is too late to say anything
        except KeyboardInterrupt as stop:
            say(f"\n{interrupted}")
            return 128 + (stop.args[0] if stop.args else signal.SIGINT)
        except BrokenPipeError:
            discard(sys.stdout)
            return 141
        except (OSError, MemoryError) as error:
            discard(sys.stdout)
            say(reason(error))
            return failed


def reason(error: BaseException) -> str:
    """What went wrong, in one line, with the file's name if it is about one."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__


def say(line: str) -> None:
    """Prints the line on stderr, if anyone is there to read it: no run is lost because nobody is."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Lets go of what the stream still holds, and of all that follows."""
    with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:  # a notebook's stream is no file
        os.dup2(nowhere.fileno(), stream.fileno())


def open_closed_streams() -> None:
    """Gives a command that was started without a standard stream (`2>&-`) one that leads nowhere.

    Print would take stdout for a missing stderr, and the next file that is opened would be file number 2.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


@contextlib.contextmanager
def stop_like_ctrl_c() -> Iterator[None]:
    """Within it, STOP interrupts as Ctrl-C does, in the main thread; in others nothing changes."""

    def stop(number: int, _: object) -> None:
        raise KeyboardInterrupt(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(STOP, stop)
    try:
        yield
    finally:
        signal.signal(STOP, before)


@functools.cache  # one thread per process
def end_with_parent() -> None:
    """Ends a worker process at most about a second after its parent, which may have been killed without a word.

    Ctrl-C is left to the parent, which stops its workers: they could only print where they happened to be. Does
    nothing in a process that a user has started.
    """
    parent = multiprocessing.parent_process()

    def watch(parent: BaseProcess) -> None:
        wait_for(parent)
        os._exit(1)

    if parent:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=watch, args=[parent], daemon=True).start()


def wait_for(parent: BaseProcess) -> None:
    """Returns when the parent of this process has ended: an orphan gets another parent, on Windows it does not.

    There the parent is waited for by its handle, which joblib hands to its workers on Windows only.
    """
    if WINDOWS:
        parent.join()
        return
    while os.getppid() == parent.pid:
        time.sleep(1)
