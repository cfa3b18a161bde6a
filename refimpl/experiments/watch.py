"""What is running, how far it is, and how long the rest will take.

A run writes how far it is into a small file beside its result, once a second, and the command that asked for it
reads these files: so it also works for runs in other processes. How long a run takes is told by its own first
rounds, or else by runs of the same kind.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from data_loaders.download import progress_bar
from refimpl import train
from refimpl.attacks import ATTACKS
from refimpl.experiments.atomic import remove, write
from refimpl.experiments.config import Config
from refimpl.experiments.results import RunResult
from refimpl.experiments.tasks import method_of
from refimpl.experiments.words import duration
from refimpl.process import say

EVERY = 1.0  # seconds between two reports of a run, and between two looks at them
MINUTE = 60.0  # between two lines where there is no terminal
LONG = 20.0  # seconds from which on it is worth a line of its own how long all will take


# --- In the process of a run --------------------------------------------------------------------------------


def path_of(result: Path) -> Path:
    """The file in which a run tells how far it is, by that of its result."""
    return result.with_name(f".{result.stem}.progress")


def reporter(path: Path, rounds: int, epochs: int) -> Callable[[Callable[[], train.Progress]], None]:
    """A function for `train.run` to call after a round: about once a second it writes how far the run is.

    With the seconds that an epoch takes, from the second round on: the first one warms up.
    """
    first: tuple[float, int] | None = None
    last = time.monotonic()

    def after_round(progress: Callable[[], train.Progress]) -> None:
        nonlocal first, last
        now = time.monotonic()
        if first is None:
            first = now, progress().state.t
        if now - last >= EVERY:
            t, worst = progress().state.t, progress().history.get("worst_own", [])
            facts = {"share": t / rounds, "epoch": t * epochs // rounds}
            facts["worst"] = worst[-1] if worst else None
            if t > first[1]:
                facts["pace"] = (now - first[0]) / (t - first[1]) * rounds / epochs
            with contextlib.suppress(OSError):
                write(path, json.dumps(facts))
            last = time.monotonic()

    return after_round


# --- How long runs take -------------------------------------------------------------------------------------


def kind_of(config: Config) -> Config:
    """The configuration without what hardly changes how long an epoch takes.

    Rules that score models take much longer than others, and without attackers more workers score.
    """
    attack = "lies" if ATTACKS[config.attack].lies else "none"
    return replace(config, rule=method_of(config).kind, attack=attack, seed=0, epochs=0, lr=0.0, device=0)


def paces(results: Iterable[RunResult], running: dict[Config, float] | None = None) -> dict[Config, float]:
    """The mean seconds per epoch by kind of run: of finished runs, and as `running` ones tell themselves.

    Runs of a rule or an attack that is not in the tables here are left out.
    """
    found: dict[Config, list[float]] = {}
    finished = [(result.config, result.seconds / result.config.epochs) for result in results]
    for config, pace in [*finished, *(running or {}).items()]:
        with contextlib.suppress(KeyError, ValueError):
            found.setdefault(kind_of(config), []).append(pace)
    return {kind: sum(some) / len(some) for kind, some in found.items()}


# --- In the command that asked for runs ---------------------------------------------------------------------


class Board:
    """The runs of a command: what is done, what is running, how long the rest will take."""

    def __init__(self, files: dict[Config, Path], jobs: int, before: Iterable[RunResult] = ()) -> None:
        """`files` are those of the results to come, `jobs` at a time; `before` are results of earlier runs."""
        self.files, self.jobs, self.before = files, jobs, list(before)
        self.finished: dict[Config, RunResult] = {}
        for path in files.values():
            remove(path_of(path))  # of a command that was stopped

    def running(self) -> dict[Config, dict[str, Any]]:
        """What the runs under way have written."""
        found = {}
        for config, path in self.files.items():
            if config not in self.finished:
                with contextlib.suppress(OSError, ValueError):
                    found[config] = json.loads(path_of(path).read_text(encoding="utf-8"))
        return found

    def estimate(self) -> tuple[float, float]:
        """The share of the work that is done, 0 to 1, and the seconds left.

        A kind of run that nothing is known of is taken to be as much work as the others are in the mean; before
        all kinds are known, the seconds are NaN.
        """
        running = self.running()
        now = {config: facts["pace"] for config, facts in running.items() if "pace" in facts}
        known = paces([*self.before, *self.finished.values()], now)
        usual = sum(known.values()) / len(known) if known else float("nan")
        whole = {c: c.epochs * now.get(c, known.get(kind_of(c), usual)) for c in self.files}
        done = {c: 1.0 if c in self.finished else running.get(c, {"share": 0.0})["share"] for c in self.files}
        left = [(1 - done[c]) * whole[c] for c in self.files]
        work = sum(whole.values())
        seconds = max(sum(left) / self.jobs, max(left))
        known_all = all(kind_of(c) in known for c in self.files)
        return 1 - sum(left) / work if work > 0 else 0.0, seconds if known_all else float("nan")

    def line(self, most: int | None = None) -> str:
        """The board in a line; of the runs under way no more than `most`, in turn."""
        _, left = self.estimate()
        done = f"{len(self.finished)}/{len(self.files)}" + (f", {duration(left)} left" if left >= 0 else "")
        runs = []
        for config, now in self.running().items():
            worst = "" if now["worst"] is None else f" worst {now['worst']:.2f}"
            runs.append(f"{config.name} {now['epoch'] + 1}/{config.epochs}{worst}")
        turn = int(time.monotonic() / EVERY) % max(1, len(runs))
        return "; ".join([done, *(runs[turn:] + runs[:turn])[:most]])


def show_progress(results: Iterable[RunResult], board: Board) -> Iterator[RunResult]:
    """Passes results through: on a terminal with a bar that moves, else with lines, one a minute at least."""
    bar = progress_bar(total=1.0, bar_format="|{bar:6}| {desc}")
    over = threading.Event()
    watcher = threading.Thread(target=keep_showing, args=[board, bar, over], daemon=True)
    watcher.start()
    try:
        for result in results:
            board.finished[result.config] = result
            if bar is None:
                worst = f"worst {result.last('worst_own'):.2f} in {result.seconds:.1f} s"
                say(f"[{len(board.finished)}/{len(board.files)}] {result.config.name}: {worst}")
            yield result
    finally:
        over.set()
        watcher.join()
        if bar is not None:
            bar.close()


def keep_showing(board: Board, bar: Any, over: threading.Event) -> None:
    """Shows the board until it is over: as a bar, or in lines.

    A line comes as soon as it is known how long all will take, if that is long, and then every minute.
    """
    last, told = time.monotonic(), False
    while not over.wait(EVERY):
        share, left = board.estimate()
        if bar is not None:
            bar.n = share
            bar.set_description_str(board.line(1))  # as much as fits beside the bar in 80 columns
        elif (left >= LONG and not told) or time.monotonic() - last >= MINUTE:
            say(board.line())
            last, told = time.monotonic(), True
