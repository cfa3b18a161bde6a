"""One run: from a configuration to its numbers.

What this file imports, and what the engine of the run's method imports, is the code that the numbers depend on:
`fingerprint` follows the imports from here. Nothing that only asks for runs or shows them belongs here.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from refimpl import methods, train
from refimpl.algorithm import Setting
from refimpl.arrays import Array
from refimpl.draws import rounds_per_epoch
from refimpl.experiments import tasks
from refimpl.experiments.config import Config
from refimpl.methods import Faults, Method, Schedule

AfterRound = Callable[[Callable[[], train.Progress]], None]


class Run(NamedTuple):
    """A run that is ready to be computed."""

    config: Config
    method: Method
    setting: Setting
    test: train.HeldOut
    W: Array  # (N, d), the initial parameters
    schedule: Schedule | None  # the graph of each round; None if it stays the same
    faults: Faults | None  # what goes wrong; None if nothing does

    @property
    def rounds_per_epoch(self) -> int:
        """The number of rounds in an epoch: see `draws.rounds_per_epoch`."""
        return rounds_per_epoch(train.sizes(self.setting), self.config.batch_size)

    @property
    def rounds(self) -> int:
        """The number of rounds in all."""
        return self.config.epochs * self.rounds_per_epoch

    @property
    def evaluate_every(self) -> int:
        """The number of epochs from one evaluation to the next."""
        return tasks.TASKS[self.config.task].evaluate_every

    @property
    def bytes_per_round(self) -> float:
        """The bytes that a worker sends to all its neighbours together: the mean over workers and rounds."""
        return self.method.bytes_per_round(self.setting, self.schedule, self.rounds)


def prepare(config: Config, data_dir: str | None = None, xp: ModuleType = np) -> Run:
    """The run with all that it starts from, in arrays of `xp`. Raises ValueError if there is no such run."""
    setting, test, W = tasks.build(config, data_dir, xp)
    schedule = methods.schedule(config.graph_schedule, setting.graph, config.seed)
    run, c = Run(config, tasks.method_of(config), setting, test, W, schedule, None), config
    if not c.faulty:
        return run
    return run._replace(faults=methods.faults.draw(setting, c.loss, c.late, c.crash, run.rounds, c.seed))


def check(run: Run) -> None:
    """Raises ValueError, naming the worker, if the run cannot be computed."""
    train.check(run.setting)
    train.check_held_out(run.setting, run.test)
    run.method.check(run.setting, run.schedule, run.rounds)


def compute(
    run: Run,
    threads: int = 1,
    since: train.Progress | None = None,
    hooks: Sequence[AfterRound] = (),
) -> train.Trained:
    """The result of training; the numbers are the same for any number of threads.

    It goes on from `since`, if given, and calls each of the hooks after a round, as `train.run` says.
    """
    c, found = run.config, [run.faults] if run.faults else []
    engine = run.method.engine(run.schedule, *found)

    def after_round(where: Callable[[], train.Progress]) -> None:
        for hook in hooks:
            hook(where)

    with run.method.threads(threads):
        return train.run(
            run.setting, run.test, run.W, c.seed, c.epochs, engine, run.evaluate_every, since, after_round
        )
