"""What `refimpl.audit` says about the rules and attacks of ByzFL and Flower: docs/PEERS.md.

    pip install --no-deps byzfl==0.0.11 flwr==1.42.0 && python studies/peers.py --write

Prints the page, or writes it. Both libraries are called as their users call them; where a convention differs,
the call says how it is translated.
"""

import argparse
import inspect
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from blocks import DOCS
from libraries import byzfl, flower, missing

from refimpl.audit import Report, judge
from refimpl.experiments.atomic import write
from refimpl.experiments.options import Parser
from refimpl.process import ended

PAGE = DOCS / "PEERS.md"
HEAD = """# Peers

What `python -m refimpl.audit` says about ByzFL {byzfl} and Flower {flwr}, from PyPI. This page is written by
`python studies/peers.py --write`.

Most differences are choices of definition, not mistakes: the literature leaves them open, and each library is
consistent with itself. Anyone who compares the numbers of two papers must know which choice was made; that is
all that this page is for. "Right" is a rule that agrees with its source on all ordinary inputs. Hostile inputs
(NaN, infinities, huge numbers) and those far from the origin (models near 1e6 that differ by 1e-6) are counted
apart: sources are silent on them, and not every library is made for them.
"""


class Peer(NamedTuple):
    name: str
    kind: str  # of refimpl.audit.KINDS
    call: str  # as a reader would write it
    function: Callable[..., Any]
    remark: str
    form: str = "numpy"


NAN = "A NaN of one client makes the result NaN, as in `numpy.median`: a server may prefer to see it."
CHOSEN = "A score of NaN wins `numpy.argmin`: check inputs first, and it does not matter."


def byzfl_peers() -> list[Peer]:
    a, k = byzfl().aggregators, byzfl().attacks
    return [
        Peer("Average", "average", "Average()(W)", lambda W: a.Average()(W), "The same."),
        Peer("Median", "median", "Median()(W)", lambda W: a.Median()(W), f"The same. {NAN}"),
        Peer("TrMean", "trimmed-mean", "TrMean(f)(W)", lambda W, f: a.TrMean(f)(W),
             "The same, but for what more than f models of NaN lead to."),
        Peer("Krum", "krum", "Krum(f)(W)", lambda W, f: a.Krum(f)(W),
             "A choice: its text counts n - f models, itself among them, Blanchard et al. n - f - 2 others. "
             + CHOSEN),
        Peer("Krum", "krum", "Krum(f + 1)(W)", lambda W, f: a.Krum(f + 1)(W),
             f"So it is Blanchard's. {CHOSEN}"),
        Peer("Krum", "krum", "Krum(f + 1)(torch.tensor(W))", lambda W, f: a.Krum(f + 1)(W),
             "Tensors are cast to float32; on ordinary inputs it is the same.", form="torch"),
        Peer("MultiKrum", "krum", "MultiKrum(f)(W)", lambda W, f: a.MultiKrum(f)(W),
             "Another rule, and meant to be: the mean of the n - f best."),
        Peer("Meamed", "trimmed-mean", "Meamed(f)(W)", lambda W, f: a.Meamed(f)(W),
             "Another rule, and meant to be: the mean around the median."),
        Peer("SignFlipping", "sign-flip", "tile(SignFlipping()(W), (len(W), 1))",
             lambda W: np.tile(k.SignFlipping()(W), (len(W), 1)),
             "A choice: it negates the mean of the honest vectors, the paper an attacker's own model."),
        Peer("SignFlipping", "fall-of-empires", "SignFlipping()(honest)",
             lambda honest: k.SignFlipping()(honest),
             "So it is Fall of Empires with epsilon 1."),
        Peer("InnerProductManipulation", "fall-of-empires", "InnerProductManipulation(epsilon)(honest)",
             lambda honest, epsilon: k.InnerProductManipulation(epsilon)(honest),
             "The same, under the other name of the attack. Its default is 2, ours 1."),
        Peer("ALittleIsEnough", "alie", "ALittleIsEnough(z)(honest)",
             lambda honest, z: k.ALittleIsEnough(z)(honest),
             "The sign is a choice: Baruch et al. subtract, an attacker may do either. The divisor is h - 1, "
             "where its text has h."),
    ]  # fmt: skip


def flower_peers() -> list[Peer]:
    f = flower()
    clients = lambda W: [([w], 1) for w in W]  # per client a list of layers and a number of samples
    return [
        Peer("aggregate", "average", "aggregate(results)", lambda W: f.aggregate(clients(W))[0],
             "The same, if every client reports as many samples."),
        Peer("aggregate_median", "median", "aggregate_median(results)",
             lambda W: f.aggregate_median(clients(W))[0], f"The same. {NAN}"),
        Peer("aggregate_trimmed_avg", "trimmed-mean", "aggregate_trimmed_avg(results, (f + 1/4) / n)",
             lambda W, b: f.aggregate_trimmed_avg(clients(W), (b + 0.25) / len(W))[0],
             "It is told a share and cuts int(share * n), so this is the same."),
        Peer("aggregate_trimmed_avg", "trimmed-mean", "aggregate_trimmed_avg(results, f / n)",
             lambda W, b: f.aggregate_trimmed_avg(clients(W), b / len(W))[0],
             "The obvious share loses a model to rounding at some sizes; `scipy.stats.trim_mean` does so too."),
        Peer("aggregate_krum", "krum", "aggregate_krum(results, f, 0)",
             lambda W, b: f.aggregate_krum(clients(W), b, 0)[0], f"The same. {CHOSEN}"),
    ]  # fmt: skip


def row(peer: Peer, report: Report) -> str:
    """A row of the page: what a call is judged as, the verdict, and a remark."""
    assert report.agreement, f"{peer.name}: {report.problem}"
    verdict = report.verdict
    for group, like in (report.by_group or {}).items():
        verdict += f"; {group}: {like.name}"
    if report.variant:
        verdict += f": {report.variant.name} ({report.variant.ordinary})"
    if report.closest:
        verdict += f"; closest: {report.closest.name} ({report.closest.ordinary})"
    return f"| {' | '.join([f'`{peer.call}`', peer.kind, verdict, str(report.agreement), peer.remark])} |"


def odd(peer: Peer, report: Report) -> str:
    """A line on what else the audit noticed; empty if nothing."""
    found = [note for note in report.notes if re.match(r"changes|writes|gives|refuses 0 of|.*: no, ", note)]
    return f"- `{peer.call}`: {'; '.join(found)}." if found else ""


def section(title: str, peers: list[Peer], names: list[str]) -> str:
    """A library: a row per call, what else was noticed, and what of `names` there is no definition for here."""
    judged = [(peer, judge(peer.function, peer.kind, form=peer.form, shrinks=False)) for peer in peers]
    notes = [line for line in (odd(*pair) for pair in judged) if line]
    left = ", ".join(f"`{name}`" for name in names if name not in {peer.name for peer in peers})
    lines = [f"## {title}", "", "| call | judged as | verdict | agrees with the definition | remark |"]
    lines += ["|---|---|---|---|---|", *(row(*pair) for pair in judged), ""]
    lines += ["Also noticed:", "", *notes, ""] if notes else []
    return "\n".join([*lines, f"Not judged, because there is no definition of them here: {left}."])


def defined_in(*modules: ModuleType) -> list[str]:
    """The names of the classes that modules define, or of their functions if there are no classes."""
    own = [
        value
        for module in modules
        for name, value in vars(module).items()
        if getattr(value, "__module__", "").startswith(module.__name__) and not name.startswith("_")
    ]
    return [v.__name__ for v in own if inspect.isclass(v)] or [v.__name__ for v in own]


def page() -> str:
    """The whole of docs/PEERS.md."""
    modules = byzfl().aggregators, byzfl().attacks
    return "\n\n".join(
        [
            HEAD.format(byzfl=version("byzfl"), flwr=version("flwr")).strip(),
            section("ByzFL", byzfl_peers(), defined_in(*modules)),
            section("Flower", flower_peers(), defined_in(flower())) + "\n",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/PEERS.md instead of printing it")
    options = parser.parse_args(arguments)
    if absent := missing("byzfl", "flwr", "torch"):
        print(f"peers.py: {' and '.join(absent)} not installed", file=sys.stderr)
        return 2
    if options.write:
        write(PAGE, page())
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
