"""From the paper's protocol to the released code's, difference by difference: which one moves the numbers?

    python studies/ablation.py spambase --epochs 60 --repeats 3     # runs them, resumes, prints the tables
    python studies/ablation.py docs/results/ablation.csv            # of runs that are there, or of a folder

`+ NAME` is the paper's protocol with that difference alone, `- NAME` the released code's without it; both show
how far the accuracy moves from the line above them that has none, or all. A star says that a paired t-test over
the seeds, corrected by Holm for all numbers of its table, can tell the two apart at 5 %. A dot is where the
difference changes nothing by its definition. Other options are those of the task's example.
"""

import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from refimpl.attacks import ATTACKS
from refimpl.experiments import cli, runner
from refimpl.experiments.config import Config
from refimpl.experiments.options import parse
from refimpl.experiments.results import SETTING, Results, describe_group, describe_versions, need_same, read
from refimpl.experiments.statistics import CONFIDENCE, holm, paired_p
from refimpl.experiments.tables import names_run
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import several
from refimpl.process import ended, reason
from refimpl.released import DIFFERENCES, combined, differences_of

RULES = ["adaptive", "median", "krum"]  # the last two for the differences that are about them
Seeds = dict[int, float]  # a number by seed


def variants(task: str) -> dict[str, list[str]]:
    """The differences that are on, by the name of the line in the table."""
    names = differences_of(task)
    alone = {f"+ {name}": [name] for name in names}
    left_out = {f"- {name}": [other for other in names if other != name] for name in names}
    return {"paper": [], **alone, "released": names, **left_out}


def concerns(line: str, rule: str, attack: str) -> bool:
    """Whether to run the line: not where it changes nothing; median and krum only for what is about them."""
    name = line[2:]
    if name not in DIFFERENCES:
        return True
    difference = DIFFERENCES[name]
    if (difference.scores_previous or difference.idle) and not ATTACKS[attack].lies:
        return False
    if line[0] == "+" and difference.idle and ATTACKS[attack].one_message:  # made of the honest models alone
        return False
    return (rule in difference.rules if rule != RULES[0] else not difference.rules) and (
        attack in difference.attacks or not difference.attacks
    )


def configs(task: str, argv: list[str]) -> tuple[list[Config], Any]:
    """All runs, and the options of the command line."""
    found: dict[Config, None] = {}
    for line, names in variants(task).items():
        given = ["--out", "results/ablation", "--rules", *RULES, *argv]
        parser, args = parse(task, [*given, *(["--released", *names] if names else [])])
        found |= {c: None for c in cli.configs(args.task, args) if concerns(line, c.rule, c.attack)}
    if args.cluster or args.gpu:
        parser.error("--cluster and --gpu are not for this script")
    try:
        cli.check(list(found), args.data_dir)
    except (OSError, ValueError, MemoryError) as error:
        parser.error(reason(error))
    if not args.dry_run:
        parser.need_folder(args.out)
    return list(found), args


def by_line(results: Results, rule: str, attack: str, measure: str) -> dict[str, Seeds]:
    """The last number of each run, by line and seed."""
    found: dict[str, Seeds] = {}
    for line, names in variants(results[0].config.task).items():
        for run in results:
            c = run.config
            if (c.rule, c.attack, set(c.released)) == (rule, attack, set(names)):
                found.setdefault(line, {})[c.seed] = run.last(measure)
    return found


def moves(results: Results, rule: str, measure: str) -> dict[tuple[str, str], tuple[float, bool]]:
    """By line and attack, the mean where none or all are on, else how far it moved, and if that is certain."""
    found, p = {}, {}
    for attack in names_run(results, "attack", ATTACKS):
        lines = by_line(results, rule, attack, measure)
        for line, seeds in lines.items():
            base = lines.get("paper" if line[0] == "+" else "released", {})
            if line in ("paper", "released"):
                found[line, attack] = float(np.mean(list(seeds.values())))
            elif concerns(line, rule, attack) and (common := sorted(set(seeds) & set(base))):
                a, b = [seeds[seed] for seed in common], [base[seed] for seed in common]
                found[line, attack] = float(np.mean(a) - np.mean(b))
                p[line, attack] = paired_p(a, b) if len(common) > 1 else 1.0
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    return {key: (value, corrected.get(key, 1) < 1 - CONFIDENCE) for key, value in found.items()}


def table(results: Results, rule: str, measure: str) -> str:
    """A line per variant, in at most 80 columns."""
    attacks, found = names_run(results, "attack", ATTACKS), moves(results, rule, measure)
    lines = [f"{f'{rule}, {measure}':24}" + "".join(f"{attack:>11}" for attack in attacks)]
    for line in variants(results[0].config.task):
        if any(key[0] == line for key in found):
            cells = [cell(line, found.get((line, attack))) for attack in attacks]
            lines.append((f"{line:24}" + "".join(cells)).rstrip())
    return "\n".join(lines)


def cell(line: str, number: tuple[float, bool] | None) -> str:
    """A number of a line, starred if it is certain; a dot if there is none."""
    if number is None:
        return f"{'.':>10} "
    value, certain = number
    text = f"{value:.2f}" if line in ("paper", "released") else f"{value:+.2f}"
    return f"{text:>10}{'*' if certain else ' '}"


def check(results: Results) -> None:
    """Raises ValueError if runs differ in what is none of the differences."""
    need_same(results, ["data"])
    for name in SETTING:
        if name != "released":
            need_same([run for run in results if name not in brought(run.config)], [name])


def brought(c: Config) -> set[str]:
    """The options that have the values which the differences of a run bring along."""
    return {name for name, value in combined(c.released).options.items() if getattr(c, name) == value}


def main(argv: list[str] | None = None) -> int:
    what, *options = (sys.argv[1:] if argv is None else argv) or ["--help"]
    if what in TASKS:
        todo, args = configs(what, options)
        how = args.out, args.jobs or joblib.cpu_count(), args.data_dir, args.threads
        if args.dry_run:
            runner.plan(todo, *how[:3])
            return 0
        results = runner.run_grid(todo, *how)
    elif Path(what).exists() and not options:
        try:
            results = read(Path(what))
            for some in by_task(results):
                check(some)
        except (OSError, ValueError) as error:
            print(f"ablation.py: {reason(error)}", file=sys.stderr)
            return 2
    elif what in ("-h", "--help"):
        print(__doc__)
        return 0
    else:
        needed = f"a task ({', '.join(TASKS)}) with its options, or a file or folder of runs"
        print(f"ablation.py: needs {needed}, got {' '.join([what, *options])}", file=sys.stderr)
        return 2
    for some in by_task(results):
        seeds = several(len({run.config.seed for run in some}), "seed")
        print(", ".join([describe_group(some, some[:1]), seeds, *describe_versions(some)]), end="\n\n")
        for rule in names_run(some, "rule", RULES):
            for measure in ("worst_own", "worst_whole") if rule == RULES[0] else ("worst_own",):
                print(f"{table(some, rule, measure)}\n")
    return 0


def by_task(results: Results) -> list[Results]:
    """The runs of each task."""
    return [[run for run in results if run.config.task == task] for task in names_run(results, "task", TASKS)]


if __name__ == "__main__":
    sys.exit(ended(main))
