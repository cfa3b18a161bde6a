"""The paper's experiments from the command line. The only part of refimpl that imports data_loaders.

tasks.py        the experiments, and the way from a configuration to arrays
tables.py       all tables that a configuration chooses from, for worker processes too
fingerprint.py  what a run's numbers depend on
grid.py         runs and their files
report.py       tables of results
figures.py      the figure
options.py      the command line's options
cli.py          the command line
files.py        writing files
endings.py      signals, closed pipes, full disks
"""

from refimpl.experiments.endings import ended


def main(task: str, argv: list[str] | None = None) -> int:
    """The command line of a name in TASKS; the exit status."""

    def command() -> int:
        from refimpl.experiments import cli  # takes a second, in which Ctrl-C is as welcome as later

        return cli.main(task, argv)

    return ended(command, "interrupted; finished runs are kept, the same command does the rest")
