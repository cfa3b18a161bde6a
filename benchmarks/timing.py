"""What the benchmarks share: timing that takes turns, threads, tables, and a word on the machine."""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from refimpl.experiments import atomic
from refimpl.fast import parallel

sys.path.append(str(Path(__file__).parents[1] / "studies"))
import libraries
from blocks import DOCS, as_code, read_block, write_blocks

PAGE = DOCS / "engineering" / "PERFORMANCE.md"
Quartiles = list[float]  # 25 %, 50 % and 75 % of the times, in milliseconds


def take_turns(columns: dict[str, Callable[[], Any]], count: int, turn: float = 0.2) -> dict[str, Quartiles]:
    """Times each function `count` times, one after the other in every turn, so that all meet the same noise.

    What takes less than a turn's seconds is run several times in a row and divided, as a cold start is not what
    a run of many rounds sees. Before that, every function warms up: two calls, and a turn that does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in columns}
    for function in columns.values():
        seconds(function, 2)
    repeats = {name: math.ceil(turn / seconds(function, 2)) for name, function in columns.items()}
    for _ in range(1 + count):
        for name, function in columns.items():
            times[name].append(1000 * seconds(function, repeats[name]))
    return {name: np.percentile(t[1:], [25, 50, 75]).tolist() for name, t in times.items()}


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Seconds of one call, in the mean of `repeats`."""
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - start) / repeats


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A context with `count` threads for refimpl's parts, each with one thread of BLAS, and for torch."""
    with parallel.threads(count):
        if libraries.missing("torch"):
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def machine() -> dict[str, Any]:
    """What a reader needs to judge the numbers by."""
    blas = sorted(
        {f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info() if pool["version"]}
    )
    packages = {name: version(name) for name in ("numpy", "torch", "byzfl") if not libraries.missing(name)}
    return {"cores": os.cpu_count(), "processor": platform.machine(), "blas": blas, **packages}


# --- Tables and files ---------------------------------------------------------------------------------------


def number(x: float) -> str:
    """Three digits, fewer of small numbers: 0.058, 5.54, 61.2, 1736."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}" if x >= 0.1 else f"{x:.3f}"


def header(width: int, names: list[str]) -> str:
    return " " * width + "".join(name.rjust(12 if name == "refimpl" else 17) for name in names)


def line(first: str, names: list[str], ms: dict[str, Quartiles]) -> str:
    """By column, the median, half the distance of the quartiles, and how many times refimpl's time that is."""
    for name in names:
        cell = ""
        if name in ms:
            low, median, high = ms[name]
            cell = f"{number(median)} ±{50 * (high - low) / median:.0f}%"
            cell += "" if name == "refimpl" else f" {median / ms['refimpl'][1]:.2g}x"
        first += cell.rjust(12 if name == "refimpl" else 17)
    return first.rstrip()


class Table:
    """Prints lines and keeps them for the page."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str = "") -> None:
        print(text, flush=True)
        self.lines.append(text)

    def into_page(self, name: str) -> None:
        """Puts the lines into the page's block of that name."""
        write_blocks(PAGE, {name: as_code("\n".join(self.lines))})

    def of_page(self, name: str) -> list[str]:
        """The lines of that block as they are."""
        return [line[4:] for line in read_block(PAGE, name).splitlines()]


def write(folder: Path, name: str, report: dict[str, Any]) -> None:
    """The report and the machine, as JSON."""
    atomic.write(folder / name, json.dumps({"machine": machine(), **report}, indent=1) + "\n")
