"""What becomes of the paper's claims (Sec. 5), and of its figures, from the runs that are kept.

    python studies/claims.py                # of docs/results
    python studies/claims.py --markdown     # for a document
    python studies/claims.py FILE.csv ...   # of files that report --format runs has written
    python studies/claims.py --curves FOLDER    # with the runs in a folder for those kept epoch by epoch

All numbers are the worst accuracy of the normal workers, each on its own test split, after the last epoch; ± is
half of Student's 95 % interval, and a number without it is of one seed. Claims are judged by the seeds that
adaptive was run with. "Significant" is by a paired t-test over the seeds that all the compared rules have, at
5 %, corrected by Holm; rules without a significant difference are "level". Compared are the paper's rules;
`local`, which it leaves out, stands beside them. A rule that scores no models does not depend on the risk, and
without an attack nothing depends on the number of attackers: such runs count for every setting that they belong
to.

The training loss is the highest of the normal workers', over all their local data, mean over the seeds. The
released code plots the mean over an epoch's batches instead, and divides it by the batch size. Where runs are
kept with their curves (docs/results/*_curves.jsonl: every epoch up to 10, and every fifth after), it is also
compared with the accuracy from epoch to epoch, run by run; the number is the mean over the seeds.
"""

import argparse
import json
import math
import sys
import textwrap
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.experiments import results
from refimpl.experiments.config import Config
from refimpl.experiments.options import Parser
from refimpl.experiments.presets import ACCURACY, LOSS
from refimpl.experiments.results import SETTING, Results, RunResult, describe_versions, protocol
from refimpl.experiments.statistics import interval, level_with
from refimpl.experiments.tables import WIDTH
from refimpl.experiments.tasks import TASKS
from refimpl.experiments.words import several
from refimpl.process import ended

ROOT = Path(__file__).parents[1]
BASELINES = ("average", "median", "trimmed-mean", "medoid", "krum")
CLOSE = 0.05  # accuracies that differ by no more are comparable
GUESSING = {"har": 1 / 6}  # the accuracy of a guess; below twice that a rule has failed to learn
ATTACKED = ("sign-flip", "arbitrary", "foe", "alie")
OPPOSED = -0.5  # rank correlations from here down are a trend
FEWEST = 4  # rules, or epochs, that have a trend
Numbers = dict[str, dict[int, float]]  # by rule and seed
NOTHING: dict[str, Numbers] = {}
WORST = {ACCURACY: 0.0, LOSS: math.inf}  # what a number counts as in an epoch in which it was lost

# Read off the supplement's figures by eye, to about 0.03: adaptive, then BASELINES.
FIGURES: dict[tuple[str, int], dict[str, tuple[str, ...]]] = {  # by task and number of attackers, then attack
    ("spambase", 3): {
        "sign-flip": ("0.90", "0.35", "0.87", "0.8", "near 0", "near 0"),
        "arbitrary": ("0.90", "0.5", "0.55", "0.8", "0.85", "0.85"),
        "foe": ("0.90", "0.25", "0.5-0.88", "0.88", "0.88", "0.25"),
        "alie": ("0.88", "0.45", "< 0.1", "< 0.1", "< 0.1", "< 0.1"),
        "none": ("0.90", "0.85-0.9", "0.85-0.9", "0.85-0.9", "unstable", "unstable"),
    },
    ("har", 6): {  # its panels for sign flipping and FoE show the file of the arbitrary attack
        "arbitrary": ("0.93", "0.1", "0.5-0.6", "0.5-0.6", "0.5-0.6", "0.68"),
        "alie": ("0.87", "0.1", "0.1", "0.1", "0.1", "0.1"),
        "none": ("0.92", *["0.68-0.75"] * 5),
    },
    ("mnist", 3): {"none": ("1.0", "0.45", "1.0", "0.45", "near 0", "near 0")},
}
UNREAD = (
    "Figures 1 (har, 13 attackers) and 2 (mnist under attack), sign flipping and FoE in D5 (their panels show "
    "the file of the arbitrary attack), and the training losses (D1 to D4)"
)


class Setting(NamedTuple):
    """Runs that differ in rule, attack and seed only."""

    config: Config
    columns: dict[str, Numbers]  # accuracies, by attack
    losses: dict[str, Numbers]  # likewise
    caption: str  # what the runs have in common
    source: str  # the files that they are in, and by how many versions of the code they are
    trends: dict[str, Numbers] = NOTHING  # rank correlations over the epochs, of loss and accuracy, by attack


def read(paths: list[Path], curves: Sequence[Path] = ()) -> list[Setting]:
    """The settings of all files, under the protocol of the paper or of the released code.

    `curves` are where runs are kept epoch by epoch. Raises OSError or ValueError.
    """
    files = {format_path(path): whole(results.read(path)) for path in paths}
    by_epoch = {format_path(path): whole(read_curves(path)) for path in curves}
    groups = results.groups([run for some in files.values() for run in some], SETTING)
    return sorted((setting(group[0].config, files, by_epoch) for group in groups), key=order)


def kept_files() -> list[Path]:
    """The files of docs/results, in the order of the tasks."""
    return [path for task in TASKS for path in sorted((ROOT / "docs" / "results").glob(f"{task}*.csv"))]


def kept_curves() -> list[Path]:
    """The files of docs/results that hold runs epoch by epoch."""
    return sorted((ROOT / "docs" / "results").glob("*_curves.jsonl"))


def read_curves(path: Path) -> Results:
    """The runs in a folder, or in a file with one per line. Raises OSError or ValueError."""
    if path.is_dir():
        return results.read(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        return [results.from_json(json.loads(line)) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def whole(found: Results) -> Results:
    """The runs of one protocol or the other, without those that have only some of their differences."""
    return [run for run in found if protocol(run.config) in ("protocol paper", "protocol released")]


def format_path(path: Path) -> str:
    """The path as seen from the top of the repository."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def order(s: Setting) -> tuple[Any, ...]:
    """The place of a setting: by task, more attackers first, the paper's protocol and risk first."""
    c = s.config
    return list(TASKS).index(c.task), -c.attackers, protocol(c), c.risk != "local"


def setting(c: Config, files: dict[str, Results], by_epoch: dict[str, Results]) -> Setting:
    """The setting of configuration c, with the numbers of all runs that belong to it. Raises ValueError."""
    used = {name: [run for run in runs if belongs(run.config, c)] for name, runs in files.items()}
    curves = {
        name: [run for run in runs if belongs(run.config, c) and trend(run) is not None]
        for name, runs in by_epoch.items()
    }
    found, drawn = ([run for runs in some.values() for run in runs] for some in (used, curves))
    results.need_same([*found, *drawn], ["data"])
    configs = [run.config for runs in files.values() for run in runs]
    names = [name for some in (used, curves) for name in some if some[name]]
    source = "; ".join([", ".join(names), *describe_versions([*found, *drawn])])
    accuracies, losses = by_attack(found, last_of(ACCURACY)), by_attack(found, last_of(LOSS))
    return Setting(c, accuracies, losses, caption(c, configs), source, by_attack(drawn, trend))


def last_of(measure: str) -> Callable[[RunResult], float | None]:
    """A function that gives a run's number after the last epoch, or None."""
    return lambda run: run.last(measure) if measure in run.history else None


def by_attack(runs: Results, number: Callable[[RunResult], float | None]) -> dict[str, Numbers]:
    """A number of each run that has it, by attack, rule and seed."""
    found: dict[str, Numbers] = {}
    for run in runs:
        if (value := number(run)) is not None:
            found.setdefault(run.config.attack, {}).setdefault(run.config.rule, {})[run.config.seed] = value
    return {attack: found[attack] for attack in ATTACKS if attack in found}


def trend(run: RunResult) -> float | None:
    """Spearman's, of accuracy and loss over the epochs of a run; None if fewer than four of both are known."""
    if len(run.evaluated) < FEWEST or not {ACCURACY, LOSS} <= run.history.keys():
        return None
    accuracy, losses = ([w if x is None else x for x in run.history[name]] for name, w in WORST.items())
    return spearman(accuracy, losses)


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The correlation of the ranks; 0 where one of the two never changes."""
    ranks = [rankdata(xs), rankdata(ys)]
    return float(np.corrcoef(*ranks)[0, 1]) if all(np.ptp(some) for some in ranks) else 0.0


def belongs(run: Config, c: Config) -> bool:
    """Whether the run's numbers are those that setting c would have given."""
    no_matter = {"risk"} if run.rule in RULES and not RULES[run.rule].scores else set()
    no_matter |= set() if ATTACKS[run.attack].lies else {"attackers"}
    return all(getattr(run, name) == getattr(c, name) for name in SETTING if name not in no_matter)


def caption(c: Config, among: list[Config]) -> str:
    """What the runs of a setting share: "har, 13 attackers, protocol paper, epochs 100, risk batch"."""
    alike = [other for other in among if (other.task, other.released) == (c.task, c.released)]
    names = [name for name in SETTING if name not in ("attackers", "epochs")]
    apart = [name for name in names if len({getattr(config, name) for config in alike}) > 1]
    facts = [f"{name} {getattr(c, name)}" for name in ["epochs", *apart]]
    return ", ".join([c.task, f"{c.attackers} attackers", protocol(c), *facts])


# --- The claims ---------------------------------------------------------------------------------------------


def best(s: Setting) -> str | None:
    """Adaptive aggregation is the best under every attack."""
    columns = {attack: numbers for attack in ATTACKED if can_tell(numbers := compared(s, attack))}
    if not columns:
        return None
    ahead, certain, local, facts = [], [], [], []
    for attack, numbers in columns.items():
        higher = [rule for rule in numbers if mean(numbers[rule]) > mean(numbers["adaptive"])]
        level = level_with("adaptive", numbers)
        ahead += [] if higher else [attack]
        certain += [attack] if not higher and level == {"adaptive"} else []
        alone = judged(s, attack).get("local")
        local += [attack] if alone and mean(alone) > mean(numbers["adaptive"]) else []
        if surely := [rule for rule in higher if level and rule not in level]:
            facts.append(f"Surely better under {attack}: {', '.join(surely)}.")
    answer = "Yes" if len(certain) == len(columns) else "In the means" if len(ahead) == len(columns) else "No"
    seeds = seeds_of([numbers["adaptive"] for numbers in columns.values()])
    sure = f"significantly ahead of all others under {len(certain) or 'none'}"
    how = f"{answer}: highest under {len(ahead)} of {several(len(columns), 'attack')} ({seeds}), {sure}."
    facts += [f"`local` is higher under {len(local)}."] if local else []
    return " ".join([how, *facts, *gaps(columns, ATTACKED)])


def kept(s: Setting) -> str | None:
    """Performance is kept without an attack: at most 0.05 below the best of the others."""
    numbers = compared(s, "none")
    if not can_tell(numbers):
        return None
    top = highest(numbers)
    behind = mean(numbers[top]) - mean(numbers["adaptive"])
    level = level_with("adaptive", numbers)
    test = "" if not level else ", no significant difference" if top in level else ", a significant difference"
    answer = "Yes" if behind <= CLOSE else "No"
    facts = f"{answer}: adaptive {with_seeds(numbers['adaptive'])}, {top} {number(numbers[top])}{test}."
    return " ".join([facts, *gaps({"none": numbers}, ["none"])])


def others_fail(s: Setting) -> str | None:
    """Under ALIE all others fail to learn on HAR: they stay below twice the accuracy of guessing."""
    numbers = compared(s, "alie")
    if s.config.task not in GUESSING or not can_tell(numbers):
        return None
    least = 2 * GUESSING[s.config.task]
    others = sorted((rule for rule in numbers if rule != "adaptive"), key=lambda rule: mean(numbers[rule]))
    learn = [f"{rule} {number(numbers[rule])}" for rule in others if mean(numbers[rule]) >= least]
    fails = mean(numbers["adaptive"]) < least
    answer = "No, so does adaptive" if fails and not learn else "No" if learn or fails else "Yes"
    span = " to ".join(f"{number(numbers[rule])} ({rule})" for rule in dict.fromkeys((others[0], others[-1])))
    facts = [f"{answer}: adaptive {with_seeds(numbers['adaptive'])}, the others {span}."]
    facts += [f"Not below {least:.2f}: {', '.join(learn)}."] if learn else []
    return " ".join([*facts, *gaps({"alie": numbers}, ["alie"])])


def comparable_on_mnist(s: Setting) -> str | None:
    """Median (CM) and medoid are comparable to it on MNIST: at most 0.05 from it under every attack."""
    far, cells = False, []
    for attack in ATTACKED:
        numbers = compared(s, attack)
        for rule in ("median", "medoid"):
            if "adaptive" in numbers and rule in numbers:
                far |= abs(mean(numbers[rule]) - mean(numbers["adaptive"])) > CLOSE
                cells.append(f"{rule} {number(numbers[rule])} of {with_seeds(numbers['adaptive'])}, {attack}")
    if s.config.task != "mnist" or not cells:
        return None
    return f"{'No' if far else 'Yes'}: {'; '.join(cells)}."


def loss_follows(s: Setting) -> str | None:
    """The training loss follows the test accuracy: ranked by either, the rules come in opposite orders."""
    found = {attack: value for attack in s.columns if (value := rank_correlation(s, attack)) is not None}
    if not found:
        return None
    opposed = [attack for attack, value in found.items() if value <= OPPOSED]
    answer = "Yes" if len(opposed) == len(found) else "In part" if opposed else "No"
    each = ", ".join(f"{value:+.2f} {attack}" for attack, value in found.items())
    return f"{answer}: rank correlation {each}."


def rank_correlation(s: Setting, attack: str) -> float | None:
    """Spearman's, of accuracy and loss over the paper's rules; None if fewer than four were run."""
    accuracy, losses = compared(s, attack), s.losses.get(attack, {})
    rules = [rule for rule in accuracy if accuracy[rule].keys() <= losses.get(rule, {}).keys()]
    if len(rules) < FEWEST:
        return None
    of_seeds = [mean({seed: losses[rule][seed] for seed in accuracy[rule]}) for rule in rules]
    return spearman([mean(accuracy[rule]) for rule in rules], of_seeds)


def loss_falls(s: Setting) -> str | None:
    """The training loss of a rule falls over the epochs as its test accuracy rises."""
    rules = ("adaptive", *BASELINES)
    pairs = {(rule, attack): some[rule] for attack, some in s.trends.items() for rule in rules if rule in some}
    if not pairs:
        return None
    found = {pair: mean(by_seed) for pair, by_seed in pairs.items()}
    opposed = [pair for pair in found if found[pair] <= OPPOSED]
    answer = "Yes" if len(opposed) == len(found) else "In part" if opposed else "No"
    how = f"rank correlation {OPPOSED:.2f} or less for {len(opposed)} of {several(len(found), 'pair')}"
    order = sorted(found, key=found.__getitem__)
    ends = " to ".join(f"{found[pair]:+.2f} ({', '.join(pair)})" for pair in (order[0], order[-1]))
    return f"{answer}: {how} of rule and attack ({seeds_of(list(pairs.values()))}), {ends}."


CLAIMS = (best, kept, others_fail, comparable_on_mnist, loss_follows)


def judged(s: Setting, attack: str) -> Numbers:
    """The numbers under an attack, of the seeds that adaptive was run with, if it was."""
    column = s.columns.get(attack, {})
    seeds = column.get("adaptive") or {seed for by_seed in column.values() for seed in by_seed}
    found = {rule: {k: by_seed[k] for k in by_seed if k in seeds} for rule, by_seed in column.items()}
    return {rule: by_seed for rule, by_seed in found.items() if by_seed}


def compared(s: Setting, attack: str) -> Numbers:
    """The numbers of the paper's rules."""
    column = judged(s, attack)
    return {rule: column[rule] for rule in ("adaptive", *BASELINES) if rule in column}


def can_tell(numbers: Numbers) -> bool:
    """Whether adaptive and another rule were run."""
    return "adaptive" in numbers and len(numbers) > 1


def highest(numbers: Numbers) -> str:
    """The best of the others."""
    return max((rule for rule in numbers if rule != "adaptive"), key=lambda rule: mean(numbers[rule]))


def gaps(columns: dict[str, Numbers], attacks: Collection[str]) -> list[str]:
    """A sentence on what was not run."""
    missing = [attack for attack in attacks if attack not in columns]
    missing += [r for r in BASELINES if any(r not in numbers for numbers in columns.values())]
    return [f"Not run, or in part: {', '.join(missing)}."] if missing else []


def mean(by_seed: dict[int, float]) -> float:
    """The mean over the seeds."""
    return float(np.mean(list(by_seed.values())))


def number(by_seed: dict[int, float] | None) -> str:
    """A number with its interval: "0.82±0.06", or "0.82" of one seed."""
    if not by_seed:
        return "-"
    return f"{mean(by_seed):.2f}" + (f"±{interval(list(by_seed.values())):.2f}" if len(by_seed) > 1 else "")


def with_seeds(by_seed: dict[int, float]) -> str:
    """A number, and of how many seeds it is the mean: "0.82±0.06 (5 seeds)"."""
    return f"{number(by_seed)} ({seeds_of([by_seed])})"


def seeds_of(some: list[dict[int, float]]) -> str:
    """How many seeds there are: "3 seeds", "1 to 3 seeds"."""
    counts = [len(by_seed) for by_seed in some]
    return f"{min(counts)} to {max(counts)} seeds" if min(counts) < max(counts) else several(counts[0], "seed")


# --- As text ------------------------------------------------------------------------------------------------


def table(rows: list[list[str]], markdown: bool) -> str:
    """The rows as a table, in text or in Markdown; the first is the header. In text the last column wraps."""
    if markdown:
        rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)
    widths = [1 + max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for *row, last in rows:
        first = "".join(f"{text:{w}}" for text, w in zip(row, widths, strict=True))
        look: Any = {"subsequent_indent": " " * sum(widths), "break_on_hyphens": False}
        lines.append(textwrap.fill(last, WIDTH, initial_indent=first, **look))
    return "\n".join(lines)


def claims(settings: list[Setting], markdown: bool) -> str:
    """Each claim, with its answer for every setting that it can be asked of."""
    rows, lines = [["claim", "runs", "answer"]], []
    for claim in (*CLAIMS, *([loss_falls] if any(map(loss_falls, settings)) else [])):
        answers = {f"[{i}]": text for i, s in enumerate(settings, start=1) if (text := claim(s))} or {
            "-": "not run"
        }
        rows += [[str(claim.__doc__), which, text] for which, text in answers.items()]
        lines.append(textwrap.fill(str(claim.__doc__), WIDTH))
        lines += [indented(f"{which} {text}") for which, text in answers.items()]
    return table(rows, markdown) if markdown else "\n".join(lines)


def indented(text: str, first: str = "  ") -> str:
    """The text in lines of WIDTH, all but the first indented by six."""
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=" " * 6, break_on_hyphens=False)


def columns(s: Setting, markdown: bool) -> str:
    """A table: under each attack adaptive, the best of the others, and the rules level with adaptive."""
    rows = [["attack", "seeds", "adaptive", "local", "best other", "level with adaptive"]]
    for attack in s.columns:
        column, numbers = judged(s, attack), compared(s, attack)
        others = [rule for rule in numbers if rule != "adaptive"]
        other = f"{number(numbers[highest(numbers)])} {highest(numbers)}" if others else "-"
        level = level_with("adaptive", numbers) if can_tell(numbers) else set()
        alike = " ".join(rule for rule in others if rule in level) or ("none" if level else "-")
        alike = "all" if others and level >= set(others) else alike
        seeds = seeds_of(list(column.values())).split(" seed")[0].replace(" to ", "-")
        ours, alone = (number(column.get(rule)) for rule in ("adaptive", "local"))
        rows.append([attack, seeds, ours, alone, other, alike])
    return table(rows, markdown)


def beside(settings: list[Setting], task: str, attackers: int, markdown: bool) -> str:
    """A table of what was read off the paper's figures, and of ours, of all seeds."""
    rules = ("adaptive", *BASELINES)
    rows: list[list[str]] = [["attack", "of", *rules]]
    for attack, values in FIGURES[task, attackers].items():
        ours: dict[tuple[str, ...], int] = {}  # by the numbers, the first setting that has them
        for i, s in enumerate(settings, start=1):
            c, column = s.config, s.columns.get(attack, {})
            if c.task == task and (c.attackers == attackers or not ATTACKS[attack].lies):
                cells = tuple(number(column.get(rule)) for rule in rules)
                ours.setdefault(cells, i)
        rows.append([attack, "paper", *values])
        ours.pop(("-",) * len(rules), None)
        rows += [["", f"[{i}]", *cells] for cells, i in ours.items()]
    return table(rows, markdown)


def losses(s: Setting, markdown: bool) -> str:
    """A table of the training losses of the rules and of `local`, means over all seeds, and the correlation."""
    rules = ("adaptive", *BASELINES, "local")
    rows = [["attack", *rules, "rank corr."]]
    for attack, column in s.losses.items():
        value = rank_correlation(s, attack)
        cells = [f"{mean(column[rule]):.2f}" if rule in column else "-" for rule in rules]
        rows.append([attack, *cells, "-" if value is None else f"{value:+.2f}"])
    return table(rows, markdown)


def main(argv: list[str] | None = None) -> int:
    p = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("files", nargs="*", type=Path, help="CSV files of runs (docs/results)")
    of = "of runs, to compare loss and accuracy over the epochs; or a file like docs/results/*_curves.jsonl"
    p.add_argument("--curves", nargs="+", default=[], type=Path, metavar="FOLDER", help=of)
    p.add_argument("--markdown", action="store_true", help="tables for a document")
    options = p.parse_args(argv)
    try:
        curves = options.curves or ([] if options.files else kept_curves())
        settings = read(options.files or kept_files(), curves)
        if options.curves and not any(s.trends for s in settings):
            raise ValueError("--curves needs runs of these settings, with losses of four epochs, and got none")
    except (OSError, ValueError) as error:
        print(f"{p.prog}: {error}", file=sys.stderr)
        return 2
    key = [indented(f"[{i}] {s.caption}; {s.source}", "") for i, s in enumerate(settings, start=1)]
    print(("\n\n" if options.markdown else "\n").join(key), end="\n\n")
    print(claims(settings, options.markdown))
    for i, s in enumerate(settings, start=1):
        print("", indented(f"[{i}] {s.caption}", ""), "", columns(s, options.markdown), sep="\n")
    for task, attackers in FIGURES:
        heading = f"Read off the paper's figures, to about 0.03, and ours: {task}, {attackers} attackers"
        print(f"\n{heading}\n\n{beside(settings, task, attackers, options.markdown)}")
    print("", indented(f"Not read off: {UNREAD}.", ""), sep="\n")
    for i, s in enumerate(settings, start=1):
        if any(rank_correlation(s, attack) is not None for attack in s.columns):
            heading = indented(f"[{i}] {s.caption}: highest training loss", "")
            print("", heading, "", losses(s, options.markdown), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
