"""The result of a run: its JSON file, its row in a CSV file, and the results that either kind of file holds.

A JSON file holds everything, under a seal. A CSV row keeps the configuration, the numbers after the last epoch
and what computed them: small enough for a repository, so that runs made on different days add up. It has no
seal: there, the history shows who has changed a number.
"""

import csv
import io
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from refimpl import methods
from refimpl.attacks import ATTACKS, KNOWLEDGE
from refimpl.experiments.config import Config
from refimpl.experiments.contents import sha256
from refimpl.experiments.fingerprint import RUN, Origin, origin, origin_of
from refimpl.experiments.registry import TABLES
from refimpl.experiments.tasks import method_of
from refimpl.process import say
from refimpl.released import combined, differences_of

FORMAT = 2  # of the JSON files


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    A number of `history` that is NaN or infinite is None. A run that was read from a CSV row has its last epoch
    only, and what the row does not hold is empty, 0 or NaN.
    """

    config: Config
    attackers: list[int]
    rounds_per_epoch: int
    bytes_per_round: float  # that a worker sends to all its neighbours together, in the mean
    evaluated: list[int]  # epochs after which the numbers of `history` were taken
    history: dict[str, list[float | None]]
    weights_at: dict[int, list[list[float]]]  # (N, N), by epoch; none if the rule gives no weights
    accuracy: dict[str, list[float]]  # of each normal worker in the end, by test data
    data: str  # digest of the data
    code: str  # digest of the code that its numbers depend on
    versions: dict[str, str]  # of refimpl and of what it is computed with
    threads: int
    seconds: float
    entries: str = ""  # digest of the entries of the tables that it uses; older files lack it

    def last(self, measure: str) -> float:
        """A number after the last epoch; infinite if it was lost, as no file keeps infinity."""
        *_, value = self.history.get(measure) or [None]
        return math.inf if value is None else value


Results = list[RunResult]
Row = dict[str, Any]

# --- The JSON file ------------------------------------------------------------------------------------------


def as_json(result: RunResult) -> str:
    """The text of the run's file."""
    content = json.loads(json.dumps({"format": FORMAT, **asdict(result)}, allow_nan=False))
    return json.dumps(content | {"sha256": seal(content)}, indent=1) + "\n"


def seal(content: dict[str, Any]) -> str:
    """The checksum of all that a repetition of the run would give again."""
    return sha256({key: value for key, value in content.items() if key not in ("seconds", "sha256")})


def from_json(content: Any) -> RunResult:
    """The result in the JSON of a file. Raises ValueError unless it is of this format and as it was written."""
    found = content.get("format", "none") if isinstance(content, dict) else "none"
    if found != FORMAT:
        raise ValueError(f"needs the result of a run in format {FORMAT}, got {found}")
    if content.get("sha256") != seal(content):
        raise ValueError("not as it was written")
    if more := sorted(set(content["config"]) - set(FIELDS)):
        raise ValueError(f"needs a run of this version's options, got {', '.join(more)}")
    config = Config(**{name: as_tuple(value) for name, value in content["config"].items()})
    weights_at = {int(epoch): C for epoch, C in content["weights_at"].items()}
    facts = {name: value for name, value in content.items() if name not in ("format", "sha256")}
    return RunResult(**facts | {"config": config, "weights_at": weights_at})


def as_tuple(value: Any) -> Any:
    """The value with tuples for lists, as a configuration has them."""
    return tuple(map(as_tuple, value)) if isinstance(value, list) else value


def load(path: Path) -> RunResult:
    """The result in a JSON file. Raises OSError or ValueError."""
    return from_json(load_json(path))


def load_json(path: Path) -> Any:
    """The content of a JSON file, whatever it is. Raises OSError or ValueError."""
    if not path.is_file():  # a pipe would keep us waiting
        raise ValueError("not a file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:  # by brackets without end
        raise ValueError(str(error)) from None


def is_run(content: Any) -> bool:
    """Whether the content of a JSON file is a run's, in this format or another."""
    return isinstance(content, dict) and {"config", "history"} <= set(content)


# --- The CSV row --------------------------------------------------------------------------------------------

FIELDS = {field.name: field.type for field in fields(Config)}
OPTIONAL = [field.name for field in fields(Config) if field.default is not MISSING]
MAY_LACK = [*OPTIONAL, "backdoor_success", "too_few", "entries"]  # columns of older files
SETTING = [name for name in FIELDS if name not in ("rule", "attack", "seed", "gpu", "device", "plain")]
TOGETHER = [*SETTING, "data"]  # what the runs of one table agree in
IDENTITY = [
    *TOGETHER,
    "rule",
    "attack",
    "seed",
]  # what tells a run from all others, whatever it was computed on
MEASURES = ("worst_own", "mean_own", "worst_whole", "mean_whole", "highest_loss", "mean_loss")
NUMBERS = (*MEASURES, "not_finite", "attacker_weight", "passing", "backdoor_success", "too_few")
COSTS = ("rounds_per_epoch", "bytes_per_round", "seconds")
COLUMNS = [*FIELDS, *NUMBERS, *COSTS, "data", "version", "code", "entries"]


def as_row(result: RunResult) -> Row:
    """The run's row; a cell is empty where the number was lost or is not known."""
    row = config_cells(result.config)
    row |= {name: result.history.get(name, [None])[-1] for name in NUMBERS}
    row |= {"rounds_per_epoch": result.rounds_per_epoch or None}
    row |= {name: None if math.isnan(x := getattr(result, name)) else x for name in COSTS[1:]}
    row |= {"data": result.data, "version": result.versions["refimpl"]}
    row |= {"code": result.code, "entries": result.entries}
    return {name: "" if value is None else value for name, value in row.items()}


def config_cells(config: Config) -> Row:
    """The cells of a configuration; of a graph or a schedule from a file, a digest of its edges."""
    row = {name: getattr(config, name) for name in FIELDS} | {"released": " ".join(config.released)}
    for name in ("graph", "graph_schedule"):
        row[name] = row[name] if isinstance(row[name], str) else f"edges {sha256(row[name])[:8]}"
    return row


def from_row(row: dict[str, str]) -> RunResult:
    """The run of a row."""
    parse: dict[Any, Any] = {
        int: int,
        float: float,
        bool: "True".__eq__,
        tuple[str, ...]: lambda t: tuple(t.split()),
    }
    known = {name: kind for name, kind in FIELDS.items() if name in row}
    config = Config(**{name: parse.get(kind, str)(row[name]) for name, kind in known.items()})
    sent, seconds = (float(row[name] or "nan") for name in COSTS[1:])
    return RunResult(
        config=config,
        attackers=[],
        rounds_per_epoch=int(row["rounds_per_epoch"] or 0),
        bytes_per_round=sent,
        evaluated=[config.epochs],
        history={name: [float(row[name])] for name in NUMBERS if row.get(name)},
        weights_at={},
        accuracy={},
        data=row["data"],
        code=row["code"],
        versions={"refimpl": row["version"]},
        threads=0,
        seconds=seconds,
        entries=row.get("entries", ""),
    )


def as_csv(results: Results) -> str:
    """The text of a CSV file, a row per run."""
    return csv_text([as_row(run) for run in results])


def csv_text(rows: list[Row]) -> str:
    """The rows, below a header, as the text of a CSV file."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def read_rows(path: Path, columns: list[str], may_lack: Sequence[str] = ()) -> list[dict[str, str]]:
    """The rows of a CSV file. Raises ValueError if it has other columns than these, or a row that is cut."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            found, rows = list(reader.fieldnames or ()), list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} needs to be a CSV file, got {error}") from None
    if found != [name for name in columns if name in found or name not in may_lack]:
        wrong = ", ".join(sorted(set(columns) ^ set(found))) or "their order"
        raise ValueError(f"{path} needs the columns {' '.join(columns)}, got a difference in {wrong}")
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise ValueError(f"{path} needs {len(found)} cells in each row, got others in row {number}")
    return rows


# --- Many results -------------------------------------------------------------------------------------------


def read(path: Path) -> Results:
    """The runs in a folder or CSV file, but for those of rules and attacks that only a user's script knows.

    Says which these are. Raises ValueError if no others are there.
    """
    if not path.exists():
        raise ValueError(f"needs a folder or a CSV file of results, but there is no {path}")
    found = read_csv(path) if path.is_file() else read_folder(path)
    for key, table in (("rule", methods.names()), ("attack", ATTACKS)):
        if strange := {getattr(run.config, key) for run in found} - set(table):
            say(f"{path}: runs of {', '.join(sorted(strange))} are left out: no {key} of the package")
            found = [run for run in found if getattr(run.config, key) not in strange]
    if not found:
        raise ValueError(f"{path} needs results of runs, and has none")
    return each_once(found, path)


def read_all(paths: Sequence[Path]) -> Results:
    """The runs in several places, their last epochs; of one that is in two of them, the later place's."""
    found: dict[tuple[str, ...], Row] = {}
    for path in paths:
        for run in read(path):
            found.pop(identity(replace(run, data="")), None)  # an older file does not say which data it was
            found[identity(run)] = as_row(run)
    return [from_row({name: str(value) for name, value in row.items()}) for row in found.values()]


def read_csv(path: Path) -> Results:
    """The runs in a CSV file. Raises ValueError, naming the row."""
    found = []
    for number, row in enumerate(read_rows(path, COLUMNS, MAY_LACK), start=1):
        try:
            found.append(from_row(row))
        except ValueError as error:
            raise ValueError(f"{path}, row {number}: {error}") from None
    return found


def read_folder(folder: Path) -> Results:
    """The runs in the JSON files of a folder; other JSON is left alone. Raises ValueError, naming the file."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = load_json(path)
        except ValueError as error:
            raise ValueError(f"{path} needs to be JSON, got {error}") from None
        try:
            found += [from_json(content)] if is_run(content) else []
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return found


def identity(run: RunResult, names: Sequence[str] = IDENTITY) -> tuple[str, ...]:
    """Some of the facts of a run, to compare it by; if not told which, all that tell it from others."""
    known = facts_of(run)
    return tuple(str(known[name]) for name in names)


def facts_of(run: RunResult) -> Row:
    """The options of a run, and its data."""
    return config_cells(run.config) | {"data": run.data or "not known"}


def groups(results: Results, names: Sequence[str] = TOGETHER) -> list[Results]:
    """The runs that agree in these facts together; if not told in which, in all but rule, attack and seed."""
    found: dict[tuple[str, ...], Results] = {}
    for run in results:
        found.setdefault(identity(run, names), []).append(run)
    return list(found.values())


def need_same(results: Results, names: Iterable[str]) -> None:
    """Raises ValueError unless the runs agree in these facts; data that are not known agree with any."""
    for name in names:
        if len(found := {value for run in results for value in identity(run, [name])} - {"not known"}) > 1:
            raise ValueError(f"needs runs with the same {name}, got {', '.join(sorted(found))}")


def each_once(results: Results, path: Path) -> Results:
    """The runs; of several with one configuration and the same data, left by versions of the code, today's.

    Raises ValueError if none of these is today's, or more than one.
    """
    found = []
    for some in groups(results, IDENTITY):
        now = [run for run in some if len(some) == 1 or is_todays(run)]
        if len(now) != 1:
            got = f"{len(some)} of {some[0].config.name}"
            raise ValueError(f"{path} needs one run of each configuration, got {got}")
        found += now
    return found


def is_todays(run: RunResult) -> bool:
    """Whether this process would compute the run by the same code."""
    return Origin(run.code, run.entries) == origin_of(run.config)


def versions(group: Results) -> int:
    """The number of versions of the code that computed a group, those of entries of the tables included.

    One version has one digest for all runs by the same modules, and one for entries of the same names. Runs are
    by the same modules if the digest of these is the same today: of the method's, and of those that the
    attack's entry reaches.
    """
    digests = defaultdict[Any, set[str]](set)
    for run in group:
        c, attack = run.config, ATTACKS[run.config.attack]
        used = [attack, *(KNOWLEDGE[name] for name in attack.knows)]
        digests[origin(used, (RUN, *method_of(c).modules)).code].add(run.code)
        digests[identity(run, [kind for kind in TABLES if kind in FIELDS])].add(run.entries)
    return max(map(len, digests.values()))


def describe_group(group: Results, among: Results) -> str:
    """What a group has apart from others, as "attackers 6, risk batch"; the task and its sizes at least."""
    facts = {name: getattr(group[0].config, name) for name in ("task", "workers", "attackers", "epochs")}
    facts |= differing(group, among)
    unspoken = "protocol paper" if facts.pop("released", None) is None else ""
    words = [f"{name} {value}" for name, value in facts.items()]
    if len(protocols := {protocol(run.config) for run in group}) == 1:
        words += protocols - {unspoken}
    return ", ".join(words)


def differing(group: Results, among: Results) -> dict[str, str]:
    """The facts of a group in which not all of the runs agree."""
    every, own = [facts_of(run) for run in among], facts_of(group[0])
    names = [name for name in TOGETHER if len({facts[name] for facts in every}) > 1]
    return {name: str(own[name]) or "none" for name in names}


def describe_versions(group: Results) -> list[str]:
    """A note for a group that several versions of the code have computed; for others none."""
    count = versions(group)
    return [f"computed by {count} versions of the code"] if count > 1 else []


def protocol(config: Config) -> str:
    """Names the protocol: the paper's, the released code's, or which differences of the latter are on."""
    on = config.released
    if not on:
        return "protocol paper"
    if set(on) != set(differences_of(config.task)):
        return f"released {' '.join(on)}"
    wanted = combined(on).options
    found = {name: getattr(config, name) for name in wanted}
    other = [f"{name} {found[name]}" for name in wanted if found[name] != wanted[name]]
    return "protocol released" + (f" but {', '.join(other)}" if other else "")
