"""A judgement in a process of its own: whatever a function does to its process, there is a report or a line."""

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from refimpl.vectors import InputError

# Elsewhere a fork breaks the system's own BLAS (macOS), or there is none (Windows).
START = "fork" if sys.platform == "linux" else "spawn"


def in_a_child(compute: Callable[..., Any], *arguments: Any) -> Any:
    """What `compute` returns in a child process. Raises its InputError, or one if the child ends in silence."""
    context: Any = multiprocessing.get_context(START)
    receives, sends = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(sends, compute, *arguments))
    with warnings.catch_warnings():  # Python 3.12 warns of threads; BLAS's own know how to be forked
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    sends.close()
    try:
        answer = receives.recv()
        child.join(1)  # a thread of the function's may never end
    except EOFError:
        child.join()
        raise InputError(
            f"could not be judged: its process {how_it_ended(child.exitcode)} without a report"
        ) from None
    finally:
        child.kill()
    if isinstance(answer, InputError):
        raise answer
    return answer


def _work(sends: Connection, compute: Callable[..., Any], *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is the parent's to tell of
    try:
        sends.send(compute(*arguments))
    except InputError as error:
        sends.send(error)


def how_it_ended(status: int | None) -> str:
    """How a process ended, by its exit code, which is minus the number of the signal that killed it."""
    if status is None:
        return "has closed its output"
    if status >= 0:
        return f"ended with status {status}"
    return f"was killed by {signal.Signals(-status).name}"
