"""Results of runs that nobody ran, for tests of tables and figures."""

from dataclasses import replace

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.config import Config
from refimpl.experiments.results import RunResult
from refimpl.experiments.tasks import TASKS
from refimpl.released import combined, differences_of

CONFIG = Config(
    task="spambase", rule="adaptive", attack="none", seed=0, graph="complete", **TASKS["spambase"].defaults
)


def result(rule, attack, seed, worst, lost=0, sent=1234.0, **options):
    """A run of two epochs, with other numbers around the worst accuracy in the end."""
    history = {
        "worst_own": [0.1, worst],
        "mean_own": [0.2, worst + 0.05],
        "worst_whole": [0.3, worst - 0.05],
        "mean_whole": [0.4, worst - 0.01],
        "highest_loss": [3.0, 1.5 - worst],
        "mean_loss": [2.0, 1.25 - worst],
        "not_finite": [0, lost],
    }
    return RunResult(
        config=replace(CONFIG, rule=rule, attack=attack, seed=seed, **{"epochs": 2} | options),
        attackers=[1, 4, 5],
        rounds_per_epoch=19,
        bytes_per_round=sent,
        evaluated=[1, 2],
        history=history,
        weights_at={},
        accuracy={},
        data="da7a",
        code="c0de",
        versions={"refimpl": "0"},
        threads=1,
        seconds=1.26,
        entries="e271e5",
    )


def losing(rule, attack, seed, highest, lost=0):
    """A run with this highest loss in the end."""
    run = result(rule, attack, seed, 0.5, lost)
    return replace(run, history=run.history | {"highest_loss": [1.0, highest], "mean_loss": [1.0, 0.25]})


def with_options(run, **options):
    """The run, of another configuration."""
    return replace(run, config=replace(run.config, **options))


def at_the_end(run):
    """The run with its last epoch only."""
    history = {measure: values[-1:] for measure, values in run.history.items()}
    return replace(run, history=history, evaluated=run.evaluated[-1:])


def as_released(task):
    """The options of a run under the released code's protocol."""
    names = differences_of(task)
    options = combined(names).options
    return {"task": task, "released": tuple(names), **options}


BY_DEFAULT = [name for name, attack in ATTACKS.items() if attack.by_default]
GRID = [
    result(rule, attack, seed, 0.5 + 0.01 * i + 0.02 * seed)
    for i, rule in enumerate(RULES)
    for attack in BY_DEFAULT
    for seed in (0, 1)
]
ONE_SEED = [run for run in GRID if run.config.seed == 0]
