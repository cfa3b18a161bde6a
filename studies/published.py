"""Tables that others have printed, once more with refimpl: theirs, ours, the difference.

    python studies/published.py ios --data-dir mnist               # Wu, Chen and Ling 2023, iid
    python studies/published.py ios --partition label-separated    # and not iid
    python studies/published.py peng wu                            # Peng et al. 2021; Wu et al. 2020
    python studies/published.py docs/results/published.csv         # numbers that --csv has kept

All on MNIST, accuracies in percent. As many rounds as theirs unless --rounds says otherwise: 50 000, 5 000 and
15 000; 1 to 8 ms each for `ios`, 10 to 30 for `wu`. With --out each number is kept in a file as soon as it is
there, and the same command does the rest; after an edit of the code it computes all anew. Where a number is the
mean of ten records, +- is its standard error.
Settings are in the docstrings of published_ios.py, published_peng.py and published_wu.py.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from published_common import Cell, Data, load
from published_ios import IOS_COLUMNS, IOS_TABLE, ios
from published_peng import PENG, peng
from published_wu import WU, WU_RULES, wu
from threadpoolctl import threadpool_limits

import refimpl
from refimpl.experiments.atomic import write
from refimpl.experiments.contents import sha256
from refimpl.experiments.fingerprint import origin
from refimpl.experiments.options import Parser, whole_number
from refimpl.experiments.results import csv_text, read_rows
from refimpl.process import ended, reason


class Published(NamedTuple):
    """An entry of PUBLISHED: a table that somebody has printed."""

    cells: Callable[[Data, argparse.Namespace], Iterator[Cell]]
    rounds: int
    rows: list[str]  # rules
    columns: list[str]  # attacks
    symmetric: bool = False
    """whether pixels are in [-1, 1]"""


PUBLISHED = {
    "ios": Published(ios, 50_000, list(IOS_TABLE["iid"]), list(IOS_COLUMNS), symmetric=True),
    "peng": Published(peng, 5_000, list(PENG), ["none"]),
    "wu": Published(wu, 15_000, list(WU_RULES), list(WU)),
}
FACTS = ["table", "partition", "row", "column", "rounds", "seed"]  # that tell a number from others
COLUMNS = ["table", "partition", "row", "column", "theirs", "rounds", "of", "seed", "ours", "error"]
COLUMNS += ["version", "seconds", "code"]  # the last is missing in older files
Row = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="ios, peng, wu, or a file that --csv wrote")
    parser.add_argument("--data-dir", help="folder with MNIST; default: the cache")
    parser.add_argument("--rounds", type=whole_number(1), help="default: as many as theirs")
    parser.add_argument("--partition", choices=list(IOS_TABLE), default="iid", help="of ios")
    parser.add_argument("--rows", nargs="+", metavar="RULE", help="only these")
    parser.add_argument("--columns", nargs="+", metavar="ATTACK", help="only these")
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--out", type=Path, help="folder for a file per number; kept if it is there")
    parser.add_argument("--kept", action="store_true", help="only numbers that are in --out already")
    parser.add_argument("--csv", type=Path, help="file for the numbers, a row each; they are added to it")
    options = parser.parse_args(argv)
    tables = options.tables or list(PUBLISHED)
    if unknown := {name for name in tables if not is_file(name)} - set(PUBLISHED):
        parser.error(f"unknown table {sorted(unknown)[0]!r}, choose from {', '.join(PUBLISHED)}, or a CSV file")
    if options.partition != "iid" and "ios" not in tables:
        parser.error(f"--partition {options.partition} is for ios, got {', '.join(tables)}")
    for asked, of in ((options.rows, "rows"), (options.columns, "columns")):
        there = [name for table in tables if table in PUBLISHED for name in getattr(PUBLISHED[table], of)]
        if strange := set(asked or []) - set(there):
            parser.error(f"{', '.join(tables)} has no {sorted(strange)[0]!r}, choose from {', '.join(there)}")
    if options.kept and not options.out:
        parser.error("--kept needs --out")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with threadpool_limits(1):
        for name in tables:
            try:
                found = (
                    read_rows(Path(name), COLUMNS, ["code"])
                    if is_file(name)
                    else cells_of(name, load(options.data_dir, PUBLISHED[name].symmetric), options)
                )
            except ValueError as error:
                parser.error(reason(error))
            rows += show(found)
    if not rows:
        print("no numbers: without --kept they are computed", file=sys.stderr)
    if options.csv and rows:
        before = read_rows(options.csv, COLUMNS, ["code"]) if options.csv.exists() else []
        write(options.csv, csv_text(added(before, rows)))
    return 0


def is_file(name: str) -> bool:
    """Whether the argument names a CSV file, and not a table."""
    return name.endswith(".csv") and Path(name).is_file()


def added(before: list[Row], rows: list[Row]) -> list[Row]:
    """All rows, the new one of two for the same number, in the order of the tables."""
    found = {tuple(str(row[name]) for name in FACTS): row for row in [*before, *rows]}
    return [{name: row.get(name, "") for name in COLUMNS} for row in sorted(found.values(), key=place)]


def place(row: Row) -> tuple[int, ...]:
    """The place of a row: by what is in a heading, then by row and column; `wu` prints its columns first."""
    name, table = row["table"], PUBLISHED[row["table"]]
    inside = table.rows.index(row["row"]), table.columns.index(row["column"])
    heading = (
        list(PUBLISHED).index(name),
        list(IOS_TABLE).index(row["partition"]),
        int(row["rounds"]),
        int(row["seed"]),
    )
    return (*heading, *(inside[::-1] if name == "wu" else inside))


def cells_of(name: str, data: Data, options: argparse.Namespace) -> Iterator[Row]:
    """The cells of a table that were asked for, computed or from their files."""
    table = PUBLISHED[name]
    code = sha256(origin([table.cells, data]))[:8]
    rounds, partition = options.rounds or table.rounds, options.partition if name == "ios" else "iid"
    for cell in table.cells(data, options):
        facts = {"table": name, "partition": partition, "row": cell.row, "column": cell.column}
        facts |= {"theirs": cell.theirs, "rounds": rounds, "of": table.rounds, "seed": options.seed}
        facts["code"] = code
        path = path_of(facts, options.out)
        asked = cell.row in (options.rows or [cell.row]) and cell.column in (options.columns or [cell.column])
        if asked and (not options.kept or (path and path.exists())):
            yield computed(facts, cell, path)


def show(rows: Iterable[Row]) -> Iterator[Row]:
    """Passes the rows through, printing each as it comes, below a heading for each table."""
    heading = ""
    for row in rows:
        about = "{table}, {partition}: {rounds} of {of} rounds, seed {seed}".format(**row)
        if about != heading:
            print(f"{about}\n{'':20}{'attack':12}{'theirs':>8}{'ours':>8}{'+-':>7}{'diff':>8}{'s':>7}")
        heading, theirs, ours = about, float(row["theirs"]), float(row["ours"])
        error = f"{float(row['error']):7.2f}" if row.get("error") else f"{'':7}"
        numbers = f"{theirs:8.2f}{ours:8.2f}{error}{ours - theirs:+8.2f}{float(row['seconds']):7.0f}"
        print(f"{row['row']:20}{row['column']:12}{numbers}", flush=True)
        yield row


def path_of(facts: dict[str, Any], out: Path | None) -> Path | None:
    """The file of a number, if they are kept."""
    name = "_".join(str(facts[key]) for key in [*FACTS, "code"])
    return out and out / f"{name.replace(' ', '-')}.json"


def computed(facts: dict[str, Any], cell: Cell, path: Path | None) -> dict[str, Any]:
    """The number of a cell with the facts about it, from its file if there is one."""
    if path and path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    start, records = time.perf_counter(), cell.compute(facts["rounds"])
    error = float(np.std(records, ddof=1)) / math.sqrt(len(records)) if len(records) > 1 else ""
    made = facts | {"ours": float(np.mean(records)), "error": error, "version": refimpl.__version__}
    made["seconds"] = time.perf_counter() - start
    if path:
        write(path, json.dumps(made, indent=1) + "\n")
    return made


if __name__ == "__main__":
    sys.exit(ended(main))
