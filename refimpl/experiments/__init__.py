"""The paper's experiments from the command line. The only part of refimpl that imports data_loaders.

config.py       the configuration of a run
tasks.py        the experiments, and the way from a configuration to arrays
run.py          one run, from its configuration to its numbers
registry.py     all tables that a configuration chooses from, for worker processes too
contents.py     what a user's functions and values are made of
fingerprint.py  what a run's numbers depend on
grid.py         many runs, and their files
cluster.py      runs on other machines
checkpoints.py  runs that were stopped
watch.py        runs under way, and how long they will take
results.py      the result of a run, its JSON file and its row in a CSV file
statistics.py   comparisons of rules over several seeds
tables.py       tables of results
figures.py      pictures of results
report.py       the command that makes tables and pictures of stored results
presets.py      the paper's figures and its authors' protocol, as options
options.py      the command line's options
runner.py       the runs of a command: computed or found, planned, shown
cli.py          the command line
api.py          the same as a library: refimpl.run
words.py        numbers in words
atomic.py       files that are there in full or not at all
"""

from importlib.util import find_spec
from pathlib import Path

from refimpl.process import ended


def require_own_loaders(found: str | None) -> None:
    """Raises ImportError if Python finds another data_loaders than the one that is installed beside refimpl."""
    if found is None or Path(found).resolve().parent != Path(__file__).resolve().parents[2] / "data_loaders":
        message = "refimpl needs the package data_loaders that comes with it, and Python finds"
        raise ImportError(f"{message} {found or 'another or none'}: rename that, or start from another folder")


require_own_loaders(getattr(find_spec("data_loaders"), "origin", None))


def main(task: str, argv: list[str] | None = None) -> int:
    """Runs the command line of a name in TASKS; returns the exit status."""

    def command() -> int:
        from refimpl.experiments import cli  # takes a second, in which Ctrl-C is as welcome as later

        return cli.main(task, argv)

    return ended(command, "interrupted; finished runs are kept, the same command does the rest")
