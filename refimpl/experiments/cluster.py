"""The runs of a grid on a Dask cluster: `--cluster ADDRESS`. Needs the extra `cluster`.

A run's configuration goes to a worker that is free, and the file that the run makes comes back and is written
here, as if it had been made here. What all runs have in common, the data sets and the entries of the tables,
goes to each worker once, also to one that joins later. A worker with other code refuses its runs. The runs of a
worker that dies are given to the others, from their first round: no checkpoints are kept.
"""

import json
import logging
from collections.abc import Iterator
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from distributed import Client, KilledWorker, WorkerPlugin, as_completed, get_worker
from distributed.comm import CommClosedError
from threadpoolctl import threadpool_limits

from data_loaders import Dataset
from refimpl.experiments import grid, tasks
from refimpl.experiments.atomic import write
from refimpl.experiments.config import Config
from refimpl.experiments.registry import Entries, at_home, entries, installed
from refimpl.experiments.results import RunResult, as_json, from_json


def connect(address: str) -> tuple[grid.RunAll, int]:
    """The function that computes a grid there, in the form of `grid.run_all`, and its number of runs at a time.

    Raises ValueError if there is no scheduler, or if it has no workers.
    """
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what matters is said below, in a line
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"--cluster needs a Dask scheduler: {error}") from None
    slots = sum(client.ncores().values())
    if not slots:
        client.close()
        raise ValueError(f"--cluster needs workers, but the scheduler at {address} has none")
    return partial(run_all, client), slots


def run_all(
    client: Client, configs: list[Config], out: Path, jobs: int, data_dir: str | None, threads: int = 1
) -> Iterator[RunResult]:
    """Runs them on all workers, whatever `jobs`, yielding each result as soon as its file is written here.

    Raises OSError if the scheduler is lost, or if a worker has other code.
    """
    names = [grid.path_of(config, out, data_dir).name for config in configs]
    parcel = Parcel(with_data(entries(configs), data_dir))
    client.register_plugin(parcel)
    try:
        runs = client.map(run_there, configs, names, parcel=parcel.name, threads=threads, pure=False)
        for run in as_completed(runs, loop=client.loop):
            text = run.result()
            result = from_json(json.loads(text))
            write(out / grid.name_of(result), text)
            yield result
    except (CancelledError, CommClosedError, KilledWorker) as error:
        killed = isinstance(error, KilledWorker)
        what = "a run ends every worker that it is on" if killed else "no scheduler any more"
        raise OSError(f"--cluster: {what}; finished runs are kept, the same command does the rest") from None
    finally:
        if client.status == "running":
            client.unregister_worker_plugin(parcel.name)
        client.close()


def with_data(some: Entries, data_dir: str | None) -> Entries:
    """The entries; tasks have their data in the place of the way to load them."""
    loads = {name: partial(at_hand, tasks.data_of(name, data_dir)) for name in some["task"]}
    return some | {"task": {name: task._replace(load=loads[name]) for name, task in some["task"].items()}}


def at_hand(data: Dataset, data_dir: str | None) -> Dataset:
    """A task's `load` where the data are there already."""
    return data


# --- On a worker of the cluster -----------------------------------------------------------------------------


class Parcel(WorkerPlugin):
    """Carries to each worker what its runs have in common."""

    def __init__(self, sent: Entries) -> None:
        self.name, self.entries = f"refimpl-{uuid4()}", sent

    def setup(self, worker: Any) -> None:
        """Looks up what the worker has itself."""
        self.entries = at_home(self.entries)

    def teardown(self, worker: Any) -> None:
        """Frees the data that the worker has kept."""
        tasks.forget()


def run_there(config: Config, name: str, parcel: str, threads: int) -> str:
    """The text of the run's file, as `grid.run_to_file` writes it. Raises OSError if it has another name."""
    threadpool_limits(threads)  # from now on: a worker with several threads computes several runs at once
    worker = get_worker()
    with installed(cast(Parcel, worker.plugins[parcel]).entries):
        if grid.path_of(config, Path()).name != name:
            raise OSError(f"--cluster needs the same refimpl everywhere, but {worker.address} has another")
        return as_json(grid.run(config, None, threads))
