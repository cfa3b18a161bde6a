"""Results on disk, read back: a folder of JSON files, or a CSV file with a line per run.

The CSV keeps the last epoch of a run with its configuration and versions. It is small enough for a repository,
so that runs made on different days add up.
"""

import csv
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments.fingerprint import code_of_rule, seal, sha256
from refimpl.experiments.summary import Results, Row, csv_text
from refimpl.experiments.tasks import Config
from refimpl.related import SYSTEMS
from refimpl.released import chosen, of_task

NUMBERS = ("worst_own", "mean_own", "worst_whole", "mean_whole", "highest_loss", "mean_loss", "not_finite")
LISTENING = ("attacker_weight", "passing")
FIELDS = [field.name for field in dataclasses.fields(Config)]
APART = [name for name in FIELDS if name not in ("rule", "attack", "seed", "gpu", "device", "plain")]


def read(path: Path) -> Results:
    """The runs in a folder or CSV file. Raises ValueError if there are none."""
    found = read_csv(path) if path.is_file() else read_folder(path)
    if not found:
        raise ValueError(f"{path} needs results of runs, and has none")
    for key, table in (("rule", RULES | SYSTEMS), ("attack", ATTACKS)):
        if strange := {run["config"][key] for run in found} - set(table):
            raise ValueError(f"{path} needs runs of the package's own {key}s, got {', '.join(sorted(strange))}")
    return each_once(found, path)


def add_up(paths: Sequence[Path]) -> Results:
    """The runs in several places, their last epochs; of one that is in two of them, the later place's."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for path in paths:
        for run in read(path):
            row = {name: "" if value is None else str(value) for name, value in as_row(run).items()}
            rows[tuple(row[name] for name in (*APART, "rule", "attack", "seed"))] = row
    return [from_row(row) for row in rows.values()]


def read_folder(folder: Path) -> Results:
    """Every JSON file with a run in it; others are left alone. Raises ValueError if one was altered."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} needs to be JSON, got {error}") from None
        if isinstance(content, dict) and {"config", "history"} <= set(content):
            if content.get("sha256", seal(content)) != seal(content):
                raise ValueError(f"{path} is not as it was written")
            found.append(content)
    return found


def each_once(results: Results, path: Path) -> Results:
    """The runs; of several with the same configuration, left by different versions of the code, today's.

    Raises ValueError if none of these is today's, or more than one.
    """
    same: dict[str, Results] = {}
    for run in results:
        key = json.dumps([run["config"].get(name) for name in (*APART, "rule", "attack", "seed")])
        same.setdefault(key, []).append(run)
    chosen = []
    for some in same.values():
        now = [r for r in some if len(some) == 1 or r["versions"]["code"] == code_of_rule(r["config"]["rule"])]
        if len(now) != 1:
            c = some[0]["config"]
            which = f"{c['rule']}, {c['attack']}, seed {c['seed']}"
            raise ValueError(f"{path} needs one run of each configuration, got {len(some)} of {which}")
        chosen += now
    return chosen


def as_csv(results: Results) -> str:
    """A line per run: its configuration, the numbers after its last epoch, and what computed it."""
    return csv_text([as_row(run) for run in results])


def as_row(run: dict[str, Any]) -> Row:
    c, last = run["config"], {name: column[-1] for name, column in run["history"].items()}
    row = {name: c.get(name, "") for name in FIELDS}
    row["released"] = " ".join(row["released"])
    for name in ("graph", "graph_schedule"):
        row[name] = row[name] if isinstance(row[name], str) else f"edges {sha256(row[name])[:8]}"
    row |= {name: last.get(name, "") for name in (*NUMBERS, *LISTENING)}
    return row | {"version": run["versions"]["refimpl"], "code": run["versions"]["code"]}


def read_csv(path: Path) -> Results:
    """The runs again, each with a history of one epoch."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if missing := {"rule", "attack", "seed", "epochs", *NUMBERS, "code"} - set(rows.fieldnames or ()):
            lacks = ", ".join(sorted(missing))
            raise ValueError(f"{path} needs runs as --format runs writes them, and lacks {lacks}")
        return [from_row(row) for row in rows]


def from_row(row: dict[str, str]) -> dict[str, Any]:
    config: dict[str, Any] = {name: row.get(name, "") for name in FIELDS}  # an older file has fewer
    config |= {name: int(row[name]) for name in ("seed", "workers", "attackers", "epochs", "batch_size")}
    config["released"] = row["released"].split()
    numbers = {name: [float(row[name])] for name in (*NUMBERS, *LISTENING) if row[name]}
    return {"config": config, "history": numbers, "versions": {"refimpl": row["version"], "code": row["code"]}}


def groups(results: Results) -> list[Results]:
    """Runs that differ in rule, attack and seed only, or in what computed them, together."""
    found: dict[str, Results] = {}
    for run in results:
        key = json.dumps([run["config"].get(name) for name in APART])
        found.setdefault(key, []).append(run)
    return list(found.values())


def described(results: Results, among: Results) -> str:
    """What a group has apart from others: "attackers 6, risk batch"; the task and its sizes at least."""
    facts = {name: results[0]["config"][name] for name in ("task", "workers", "attackers", "epochs")}
    facts |= apart(results, among)
    unspoken = "protocol paper" if facts.pop("released", None) is None else ""
    told = [f"{name} {value}" for name, value in facts.items()]
    if len(protocols := {protocol(run["config"]) for run in results}) == 1:
        told += protocols - {unspoken}
    return ", ".join(told)


def apart(results: Results, among: Results) -> dict[str, str]:
    """The options of a group in which not all of the runs agree."""
    names = [n for n in APART if len({json.dumps(run["config"].get(n)) for run in among}) > 1]
    return {name: shown(results[0]["config"].get(name)) for name in names}


def protocol(config: dict[str, Any]) -> str:
    """The paper's, the released code's, or what the run has of that."""
    on = config.get("released")
    if not on:
        return "protocol paper"
    if set(on) != set(of_task(config["task"])):
        return f"released {' '.join(on)}"
    wanted = {name: value for difference in chosen(on) for name, value in difference.options.items()}
    found = {name: config.get(name) or wanted[name] for name in wanted}  # an older file has fewer
    other = [f"{name} {found[name]}" for name in wanted if str(found[name]) != str(wanted[name])]
    return "protocol released" + (f" but {', '.join(other)}" if other else "")


def shown(value: Any) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
