"""The pictures of docs/pictures, drawn from the numbers that are kept.

    python studies/pictures.py                      # all of them
    python studies/pictures.py trust har            # some
    python studies/pictures.py --collect FOLDER     # first keeps the curves of the runs in a folder, then draws

A picture holds a digest of what it was drawn from; `tests/test_pictures.py` fails if that has changed since.
The curves are those of `python examples/spambase.py --repeats 5`.
"""

import argparse
import hashlib
import json
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import attacks
import claims
import cooperation
import faults
import numpy as np
import systems
import talking
from blocks import DOCS, read_block

from refimpl.attacks import ATTACKS
from refimpl.experiments import figures
from refimpl.experiments.atomic import write
from refimpl.experiments.figures import FEW, MARKERS, drawing
from refimpl.experiments.results import Results, RunResult, as_json, groups, protocol, read
from refimpl.experiments.statistics import CONFIDENCE, holm, interval, paired_p
from refimpl.experiments.tables import names_run, select
from refimpl.experiments.tasks import TASKS
from refimpl.process import ended

ROOT, KEPT, FOLDER = DOCS.parent, DOCS / "results", DOCS / "pictures"
CURVES = KEPT / "spambase_curves.jsonl"  # a run per line: of its JSON file, what is used


# --- Curves: kept apart, for the rows of a CSV have the last epoch only -------------------------------------


def collect(folder: Path, path: Path = CURVES) -> None:
    """Keeps what is used of the runs in a folder: every epoch up to 10, and every fifth after."""
    runs = (json.loads(as_json(thinned(run))) for run in read(folder))
    write(path, "".join(json.dumps(run, separators=(",", ":")) + "\n" for run in runs))


def thinned(run: RunResult) -> RunResult:
    """The run without what no picture shows and `claims.trend` does not read."""
    at = [i for i, epoch in enumerate(run.evaluated) if epoch <= 10 or epoch % 5 == 0]
    used = ("worst_own", "highest_loss", "passing")
    history = {name: run.history[name] for name in used if name in run.history}
    weights = run.weights_at if run.config.rule == "adaptive" else {}
    return replace(
        run,
        evaluated=[run.evaluated[i] for i in at],
        history={name: [rounded(values[i]) for i in at] for name, values in history.items()},
        weights_at={epoch: [[round(c, 4) for c in row] for row in C] for epoch, C in weights.items()},
        accuracy={},
    )


def rounded(value: float | None) -> float | None:
    """A number to four digits after the point."""
    return None if value is None else round(value, 4)


def curves() -> Results:
    """The runs whose curves are kept."""
    return claims.read_curves(CURVES)


# --- The pictures that are not a study's own ----------------------------------------------------------------


def setting(name: str, attackers: int, which: str) -> Results:
    """The runs of a file with so many attackers under a protocol; of several such settings, the largest."""
    runs = read(KEPT / name)
    wanted = (attackers, f"protocol {which}")
    found = [run for run in runs if (run.config.attackers, protocol(run.config)) == wanted]
    most, *_ = max(groups(found), key=len)
    return [run for run in runs if claims.belongs(run.config, most.config)]


def in_the_end(name: str, attackers: int, which: str) -> Callable[[Path], None]:
    """A function that draws the last numbers of a setting."""

    def draw(path: Path) -> None:
        runs = setting(name, attackers, which)
        figures.figure(runs, title_of(runs), path)

    return draw


def title_of(runs: Results) -> str:
    """The task, below a sentence on who loses least under its worst attack."""
    return f"{systems.answer(runs)}\n{TASKS[runs[0].config.task].title}"


def by_epoch(path: Path) -> None:
    """Draws the accuracy on Spambase by epoch."""
    figures.figure(curves(), title_of(curves()), path)


def trust(path: Path) -> None:
    """Draws who trusts whom on Spambase, under sign-flip, and how many neighbours pass under all attacks."""
    runs = [run for run in curves() if run.config.rule == "adaptive"]
    alone, receivers = listening_to_nobody(runs)
    last, one = runs[0].config.epochs, select(runs, "adaptive", "sign-flip")[0]
    title = f"In the end {alone} of {receivers} receivers give their own model all the weight"
    facts = f"adaptive on Spambase, epoch {last}, all attacks, {figures.seeds_of(runs)}"
    with drawing(path, f"{title}\n{facts}; black: weight 1, white: 0", (6, 2.4)) as fig:
        *maps, right = fig.subplots(1, 4)
        for ax, epoch in zip(maps, (1, last // 4, last), strict=True):
            figures.matrix(ax, np.array(one.weights_at[epoch]), one.attackers)
            ax.set_title(f"sign-flip, epoch {epoch}")
            ax.set_xlabel(figures.SENDERS)
        maps[0].set_ylabel("receiver")
        passing(right, runs)


def listening_to_nobody(runs: Results) -> tuple[int, int]:
    """How many receivers give their own model all the weight after the last epoch, and how many there are."""
    own = [run.weights_at[run.config.epochs][k][k] for run in runs for k in normal(run)]
    return sum(c == 1 for c in own), len(own)


def normal(run: RunResult) -> list[int]:
    """The workers that do not attack."""
    return [k for k in range(run.config.workers) if k not in run.attackers]


def passing(ax: Any, runs: Results) -> None:
    """Draws how many neighbours pass the filter of adaptive by epoch, a line per attack."""
    for i, attack in enumerate(names_run(runs, "attack", ATTACKS)):
        y = figures.curves(runs, "adaptive", attack, "passing")
        look = {"color": f"{0.12 * i}", "linewidth": 0.9, "markersize": 3, "markevery": (i, 6)}
        ax.plot(runs[0].evaluated, y.mean(axis=0), MARKERS[i] + "-", label=attack, **look)
    ax.set_xscale("log")
    ax.set_xticks([1, 10, 100], ["1", "10", "100"])
    ax.set(xlabel="epoch", title=f"models heard, of {runs[0].config.workers - 1}", ylim=(0, 3))
    ax.legend(frameon=False, fontsize=6.5, handlelength=1.2, labelspacing=0.2, loc="upper right")
    ax.grid(alpha=0.3, linewidth=0.5)


def adaptive_minus_local(path: Path) -> None:
    """Draws how far adaptive is above local, paired by seed, for all settings and attacks that have both."""
    settings = [(s, found) for s in claims.read(claims.kept_files()) if (found := differences(s))][::-1]
    with drawing(path, verdict(settings), (7, 0.4 * len(settings) + 1.4)) as fig:
        ax = fig.subplots()
        for y, (_, found) in enumerate(settings):
            for attack, by_seed in found.items():
                difference(ax, y, attack, by_seed)
            ax.axhline(y + 0.5, color="0.85", linewidth=0.6)
        names = [s.caption.split(", ", 2) for s, _ in settings]
        labels = [f"{task}, {liars}\n{rest}" for task, liars, rest in names]
        ax.set_yticks(range(len(labels)), labels, fontsize=7)
        ax.axvline(0, color="black", linewidth=0.8)
        ax.set(ylim=(-0.5, len(names) - 0.5), xlabel="adaptive minus local: test accuracy of the worst worker")
        ax.grid(axis="x", alpha=0.3, linewidth=0.5)
        ax.tick_params(axis="y", length=0)
        drawn = dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
        once = {attack: drawn[attack] for attack in ATTACKS if attack in drawn}
        fig.legend(once.values(), once, loc="outside lower center", ncols=len(once), frameon=False)


def differences(s: claims.Setting) -> dict[str, list[float]]:
    """By attack, adaptive minus local for each seed that both were run with."""
    found = {}
    for attack, numbers in s.columns.items():
        ours, alone = numbers.get("adaptive", {}), numbers.get("local", {})
        if common := sorted(set(ours) & set(alone)):
            found[attack] = [ours[seed] - alone[seed] for seed in common]
    return found


def verdict(settings: list[tuple[claims.Setting, dict[str, list[float]]]]) -> str:
    """The title: the lowest and the highest mean with each risk and protocol, and how many are certain."""
    words = {
        ("protocol paper", "local"): "with the paper's r_k",
        ("protocol paper", "batch"): "with the risk on the batch",
        ("protocol released", "batch"): "under the released code's protocol",
    }
    found = [
        ((protocol(s.config), s.config.risk), by_seed) for s, some in settings for by_seed in some.values()
    ]
    means: dict[tuple[str, str], list[float]] = {which: [] for which in words}
    for which, by_seed in found:
        means[which].append(float(np.mean(by_seed)))
    ends = {which: f"{min(some):+.2f} to {max(some):+.2f}" for which, some in means.items() if some}
    gains = ",\n".join(f"{span} {words[which]}" for which, span in ends.items())
    tested = [by_seed for _, by_seed in found if len(by_seed) > 1]
    p = holm([paired_p(by_seed, [0.0] * len(by_seed)) for by_seed in tested])
    certain = sum(p_one < 1 - CONFIDENCE for p_one in p)
    test = f"certain (paired t-test, Holm, 5 %): {certain or 'none'} of {len(tested)}"
    return f"adaptive minus local: {gains}\n{test}; bar: 95 % interval; hollow dot: one of few seeds"


def difference(ax: Any, y: float, attack: str, by_seed: list[float]) -> None:
    """Draws a mean difference, with its interval, or with a hollow dot per seed if they are few."""
    place = list(ATTACKS).index(attack)
    at, colour = y + 0.32 - 0.16 * place, figures.COLOURS[place]
    half = interval(by_seed) if len(by_seed) >= FEW else None
    if len(by_seed) < FEW:
        ax.plot(by_seed, [at] * len(by_seed), "o", mfc="none", color=colour, markersize=2.5, mew=0.5)
    look = {"markersize": 4, "color": colour, "elinewidth": 1}
    ax.errorbar(np.mean(by_seed), at, xerr=half, fmt=MARKERS[place], label=attack, **look)


def convex_toy(path: Path) -> None:
    """Draws the toy of Theorem 1, as its example does."""
    sys.path.insert(0, str(ROOT / "examples"))
    import convex_toy as toy

    attack, liars, seed = "sign-flip", 6, 0
    gaps = {(rule, attack): toy.gaps(rule, attack, liars, seed) for rule in toy.RULES}
    toy.picture(gaps, attack, liars, seed, path)


def scale_page() -> Path:
    """The page that has the tables of benchmarks/scale.py."""
    return next(DOCS.rglob("PERFORMANCE.md"))


def scale(path: Path) -> None:
    """Draws the tables of benchmarks/scale.py that the page has."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import scale as benchmark

    sweeps: dict[str, Any] = {}
    for line in read_block(scale_page(), "scale").splitlines():
        match line.split():
            case [name, "ms", *_]:
                sweep = sweeps[name] = {"x": [], "ms": [], "MB": []}
            case [x, ms, _, MB, _]:
                for key, value in (("x", x), ("ms", ms), ("MB", MB)):
                    sweep[key].append(float(value))
            case ["time", *_, last]:
                sweep["exponent"] = float(last.partition("^")[2])
    benchmark.figure(sweeps, path)


# --- All pictures -------------------------------------------------------------------------------------------


class Picture(NamedTuple):
    """An entry of PICTURES."""

    draw: Callable[[Path], None]  # writes the PNG
    sources: Callable[[], Iterable[str]]  # the text of what it is drawn from


def files(*names: str) -> Callable[[], Iterable[str]]:
    """A function that reads these files of docs/results."""
    return lambda: ((KEPT / name).read_text(encoding="utf-8") for name in names)


def systems_of(task: str) -> Picture:
    """The heat maps of a task."""
    return Picture(lambda path: systems.draw(read(systems.CSV), task, path), files("systems.csv"))


PICTURES = {
    "trust": Picture(trust, files(CURVES.name)),
    "adaptive_minus_local": Picture(
        adaptive_minus_local, lambda: (path.read_text(encoding="utf-8") for path in claims.kept_files())
    ),
    "spambase": Picture(by_epoch, files(CURVES.name)),
    "spambase_released": Picture(
        in_the_end("spambase_released.csv", 3, "released"), files("spambase_released.csv")
    ),
    "har": Picture(in_the_end("har.csv", 13, "paper"), files("har.csv")),
    "har_6": Picture(in_the_end("har.csv", 6, "paper"), files("har.csv")),
    "har_released": Picture(in_the_end("har.csv", 13, "released"), files("har.csv")),
    "mnist": Picture(in_the_end("mnist.csv", 3, "paper"), files("mnist.csv")),
    "cooperation": Picture(
        lambda path: cooperation.draw(read(cooperation.CSV), path), files("cooperation.csv")
    ),
    "attacks": Picture(lambda path: attacks.draw(attacks.kept(), path), files("attacks.csv")),
    "faults": Picture(lambda path: faults.draw(read(faults.CSV), path), files("faults.csv")),
    **{f"systems_{task}": systems_of(task) for task in ("spambase", "har", "mnist")},
    "talking": Picture(lambda path: talking.draw(talking.kept(), path), files("talking.csv")),
    "scale": Picture(scale, lambda: [read_block(scale_page(), "scale")]),
    "convex_toy": Picture(
        convex_toy, lambda: [(ROOT / "examples" / "convex_toy.py").read_text(encoding="utf-8")]
    ),
}


def digest(name: str) -> str:
    """The digest of what a picture is drawn from."""
    return hashlib.sha256("\0".join(PICTURES[name].sources()).encode()).hexdigest()


# --- The digest in a PNG: a chunk of text after the first, which has 33 bytes with the signature ------------

FIRST, KEY = 33, b"Source\0"


def stamped(png: bytes, text: str) -> bytes:
    """The PNG with a text in it."""
    content = b"tEXt" + KEY + text.encode("ascii")
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return png[:FIRST] + chunk + png[FIRST:]


def stamp_of(png: bytes) -> str:
    """The text that `stamped` has put into a PNG; "" if there is none."""
    (size,) = struct.unpack(">I", png[FIRST : FIRST + 4])
    found = png[FIRST + 8 : FIRST + 8 + size]
    return found.removeprefix(KEY).decode("ascii") if found.startswith(KEY) else ""


def draw(name: str, folder: Path = FOLDER) -> None:
    """Draws a picture into a folder, with the digest of what it is drawn from."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / f"{name}.png"
        PICTURES[name].draw(path)
        write(folder / path.name, stamped(path.read_bytes(), digest(name)))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, or some of {', '.join(PICTURES)}")
    parser.add_argument("--collect", type=Path, metavar="FOLDER", help="of runs whose curves are to be kept")
    options = parser.parse_args(argv)
    if strange := [name for name in options.names if name not in PICTURES]:
        parser.error(f"needs names among {', '.join(PICTURES)}, got {', '.join(strange)}")
    if options.collect:
        collect(options.collect)
    for name in options.names or PICTURES:
        draw(name)
        print(FOLDER / f"{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
