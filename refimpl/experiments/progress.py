"""What is running, how far it is, and how long the rest will take.

A run writes how far it is into a small file beside its result, once a second, and the command that asked for it
reads these files: so it also works for runs in other processes.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from data_loaders.download import progress_bar
from refimpl import train
from refimpl.experiments.endings import say
from refimpl.experiments.files import write

EVERY = 1.0  # seconds between two reports of a run, and between two looks at a terminal
MINUTE = 60.0  # between two lines where there is no terminal


def path_of(result: Path) -> Path:
    return result.with_name(f".{result.stem}.progress")


def name_of(result: Path) -> str:
    """The file's name without its fingerprint."""
    return result.stem.rpartition("_")[0]


def reporter(path: Path, rounds: int, epochs: int) -> Callable[[Callable[[], train.Progress]], None]:
    """A function for `train.run` to call after a round: about once a second it writes how far the run is."""
    last = time.monotonic()

    def after_round(progress: Callable[[], train.Progress]) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            now = progress()
            worst = now.history.get("worst_own", [])
            facts = {"share": now.state.t / rounds, "epoch": now.state.t * epochs // rounds, "epochs": epochs}
            facts["worst"] = worst[-1] if worst else None
            with contextlib.suppress(OSError):
                write(path, json.dumps(facts))
            last = time.monotonic()

    return after_round


class Board:
    """The runs of a command: what is done, what is running, how long the rest will take."""

    def __init__(self, work: dict[Path, float]) -> None:
        """`work` has the seconds that each run was estimated at, by the file of its result."""
        self.work, self.start, self.finished = work, time.monotonic(), set[Path]()
        for path in work:
            path_of(path).unlink(missing_ok=True)  # of a command that was stopped

    def finish(self, name: str) -> None:
        """By the name of the run's file without its fingerprint: adaptive_alie_seed0.

        Of several that differ in another option, one whose file is there.
        """
        left = [path for path in self.work if name_of(path) == name and path not in self.finished]
        self.finished |= set(sorted(left, key=lambda path: not path.exists())[:1])

    def running(self) -> dict[Path, dict[str, Any]]:
        """What the runs under way have written, by the file of their result."""
        found = {}
        for path in self.work.keys() - self.finished:
            with contextlib.suppress(OSError, ValueError):
                found[path] = json.loads(path_of(path).read_text())
        return found

    def share(self) -> float:
        """How much of the work is done, each run counting as much as was estimated."""
        done = sum(self.work[path] for path in self.finished)
        done += sum(self.work[path] * now["share"] for path, now in self.running().items())
        return done / sum(self.work.values())

    def left(self) -> float:
        """Seconds, by how long it took so far."""
        share = self.share()
        return (time.monotonic() - self.start) * (1 - share) / share if share else sum(self.work.values())

    def line(self) -> str:
        """All of it in words."""
        runs = [f"{len(self.finished)} of {several(len(self.work), 'run')} done"]
        for path, now in sorted(self.running().items()):
            worst = "" if now["worst"] is None else f", worst {now['worst']:.2f}"
            runs.append(f"{name_of(path)}: epoch {now['epoch'] + 1} of {now['epochs']}{worst}")
        return "; ".join([*runs, f"about {duration(self.left())} left"])

    def short_line(self) -> str:
        """What fits beside a bar in 80 columns; of the runs under way one, in turn."""
        text, running = f"{len(self.finished)}/{len(self.work)}, {duration(self.left())} left", self.running()
        if running:
            path = sorted(running)[int(time.monotonic() / EVERY) % len(running)]
            now = running[path]
            text += f"; {name_of(path)} {now['epoch'] + 1}/{now['epochs']}"
            text += "" if now["worst"] is None else f" worst {now['worst']:.2f}"
        return text


def shown(results: Iterable[dict[str, Any]], board: Board) -> Iterator[dict[str, Any]]:
    """Passes results through: on a terminal with a bar that moves, else with lines, one a minute at least."""
    bar = progress_bar(total=1.0, bar_format="|{bar:6}| {desc}")
    over = threading.Event()
    watcher = threading.Thread(target=watch, args=[board, bar, over], daemon=True)
    watcher.start()
    try:
        for result in results:
            c, worst = result["config"], result["history"]["worst_own"][-1]
            board.finish(f"{c['rule']}_{c['attack']}_seed{c['seed']}")
            if bar is None:
                line = f"[{len(board.finished)}/{len(board.work)}] {c['rule']} {c['attack']} seed {c['seed']}"
                say(f"{line}: worst {worst:.2f} in {result['seconds']:.1f} s")
            yield result
    finally:
        over.set()
        watcher.join()
        if bar is not None:
            bar.close()


def watch(board: Board, bar: Any, over: threading.Event) -> None:
    """Shows the board every now and then until it is over."""
    while not over.wait(MINUTE if bar is None else EVERY):
        if bar is None:
            say(board.line())
        else:
            bar.n = board.share()
            bar.set_description_str(board.short_line())


def several(count: int, what: str) -> str:
    """ "1 run", "2 runs"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def duration(seconds: float) -> str:
    """In the largest unit of which it is more than one and a half."""
    unit, name = (3600, "hour") if seconds > 5400 else (60, "minute") if seconds > 90 else (1, "second")
    return several(round(seconds / unit), name)
