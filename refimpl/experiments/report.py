"""Finished runs as tables and pictures: python -m refimpl.experiments.report FOLDER"""

import sys
from pathlib import Path

from refimpl.experiments import figures, results
from refimpl.experiments.options import HelpFormatter, Parser
from refimpl.experiments.presets import ACCURACY, LOSS
from refimpl.experiments.results import Results, csv_text
from refimpl.experiments.tables import latex_table, markdown_table, rows, rules_of, text_table
from refimpl.experiments.tasks import TASKS
from refimpl.process import ended, reason, say

TABLE_FORMATS = {"text": text_table, "markdown": markdown_table, "latex": latex_table}  # of accuracy or of loss
FORMATS = [*TABLE_FORMATS, "csv", "runs"]


def main(argv: list[str] | None = None) -> int:
    p = Parser(
        prog="python -m refimpl.experiments.report",
        description="Prints the table of the runs in a folder and draws all pictures of them into it.",
        formatter_class=HelpFormatter,
    )
    of = "of results, or a CSV file made by --format runs; several add up, and the last one's run counts"
    p.add_argument("paths", type=Path, nargs="+", metavar="FOLDER", help=of)
    p.add_argument("--format", choices=FORMATS, default="text", metavar="NAME", help=", ".join(FORMATS))
    p.add_argument("--loss", action="store_true", help="tables of the training loss, not of the test accuracy")
    p.add_argument("--pictures", type=Path, metavar="FOLDER", help="for the pictures (the folder of the runs)")
    args = p.parse_args(argv)
    try:
        found = results.read(args.paths[0]) if len(args.paths) == 1 else results.read_all(args.paths)
    except (OSError, ValueError) as error:
        p.error(str(error))
    if args.format == "runs":
        print(results.as_csv(found), end="")
        return 0
    if args.pictures:
        p.need_folder(args.pictures, "--pictures")
    groups = results.groups(found)
    if args.format == "csv":
        print(csv_text([results.differing(some, found) | row for some in groups for row in rows(some)]), end="")
    else:
        comment, table = "% " if args.format == "latex" else "", TABLE_FORMATS[args.format]
        for some in groups:
            about = [results.describe_group(some, found), *results.describe_versions(some)]
            heading = "\n".join(f"{comment}{line}" for line in about)
            print(heading, table(some, LOSS if args.loss else ACCURACY), sep="\n\n", end="\n\n")
    if folder := args.pictures or (args.paths[0] if len(args.paths) == 1 and args.paths[0].is_dir() else None):
        try:
            for number, some in enumerate(groups, start=1):
                draw(some, title_of(some, found), folder, f"_{number}" if number > 1 else "")
        except ImportError as error:
            say(f"no pictures: matplotlib does not import ({error}): pip install '.[examples]'")
        except OSError as error:
            if args.pictures:
                raise
            say(f"no pictures, as --pictures names no folder for them: {reason(error)}")
    return 0


def title_of(group: Results, among: Results) -> str:
    """The title of a group: the task, and what tells it from others but for what a caption has anyway."""
    task = group[0].config.task
    title = TASKS[task].title if task in TASKS else task  # a user's own, in a script that is not run here
    in_caption = {"task", "workers", "attackers", "released"}
    more = [
        f"{name} {value}" for name, value in results.differing(group, among).items() if name not in in_caption
    ]
    return ", ".join([title, *more])


def draw(group: Results, title: str, folder: Path, suffix: str) -> None:
    """Draws every picture that the runs have the numbers for."""
    for name, what in (("accuracy", "worst_own"), ("loss", "highest_loss"), ("whole", "worst_whole")):
        figures.figure(group, title, folder / f"{name}{suffix}.png", (what,))
    weighing = [run for run in group if "passing" in run.history]
    for what in ("attacker_weight", "passing"):
        if weighing:
            figures.figure(weighing, title, folder / f"{what}{suffix}.png", (what,))
    if all(run.accuracy for run in group):
        figures.workers(group, title, folder / f"workers{suffix}.png")
    for rule in rules_of(weighing):
        if all(run.weights_at for run in weighing):
            figures.trust(weighing, rule, title, folder / f"trust_{rule}{suffix}.png")


if __name__ == "__main__":
    sys.exit(ended(main))
