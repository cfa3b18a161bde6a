"""Finished runs as tables and pictures: python -m refimpl.experiments.report FOLDER"""

from pathlib import Path

from refimpl.experiments import figures, pictures, runs
from refimpl.experiments.options import HelpFormatter, Parser
from refimpl.experiments.paper import ACCURACY, LOSS
from refimpl.experiments.summary import Results, csv_table, latex_table, markdown_table, rules_of, text_table
from refimpl.experiments.tasks import TASKS

TABLES = {"text": text_table, "markdown": markdown_table, "latex": latex_table}  # of accuracy or of loss
FORMATS = [*TABLES, "csv", "runs"]


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
        results = runs.read(args.paths[0]) if len(args.paths) == 1 else runs.add_up(args.paths)
    except (OSError, ValueError) as error:
        p.error(str(error))
    if args.format == "runs":
        print(runs.as_csv(results), end="")
        return 0
    folder = args.pictures or (args.paths[0] if len(args.paths) == 1 and args.paths[0].is_dir() else None)
    if folder:
        p.need_folder(folder)
    what = LOSS if args.loss else ACCURACY
    for number, group in enumerate(runs.groups(results), start=1):
        table = csv_table(group) if args.format == "csv" else TABLES[args.format](group, what)
        print(f"{runs.described(group, results)}\n\n{table}\n")
        if folder:
            draw(group, folder, f"_{number}" if number > 1 else "")
    return 0


def draw(results: Results, folder: Path, suffix: str) -> None:
    """Every picture that the runs have the numbers for."""
    title = TASKS[results[0]["config"]["task"]].title
    for name, what in (("accuracy", "worst_own"), ("loss", "highest_loss"), ("whole", "worst_whole")):
        figures.figure(results, title, folder / f"{name}{suffix}.png", (what,))
    weighing = [run for run in results if "passing" in run["history"]]
    for what in ("attacker_weight", "passing"):
        if weighing:
            figures.figure(weighing, title, folder / f"{what}{suffix}.png", (what,))
    if all("accuracy" in run for run in results):
        pictures.workers(results, title, folder / f"workers{suffix}.png")
    for rule in rules_of(weighing):
        if all("weights_at" in run for run in weighing):
            pictures.trust(weighing, rule, title, folder / f"trust_{rule}{suffix}.png")


if __name__ == "__main__":
    raise SystemExit(main())
