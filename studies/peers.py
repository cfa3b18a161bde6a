"""What the audit says about other people's libraries, as docs/PEERS.md.

    pip install torch && pip install --no-deps byzfl flwr byzpy fedml openfl p2pfl
    python studies/peers.py --write

Prints the page, or writes it. The libraries are called as their users call them; where a convention differs,
the call says how it is translated. docs/PEERS.md names the versions.
"""

import argparse
import inspect
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import libraries
import numpy as np
from blocks import DOCS
from libraries import missing

from refimpl.audit import KINDS, Report, judge
from refimpl.audit.report import NOT_JUDGED, RIGHT
from refimpl.experiments.atomic import write
from refimpl.experiments.options import Parser
from refimpl.process import ended

PAGE = DOCS / "PEERS.md"
HEAD = """# Peers

What `python -m refimpl.audit` says about the libraries that install from PyPI without gigabytes. This page is
written by

    pip install torch && pip install --no-deps {packages}
    python studies/peers.py --write

{table}

A cell is about the call that a user would try first; the sections below say what the variants are, and how to
call a library so that it is right. An empty cell is a rule that the library does not have, or that was not
asked.

Most differences are choices of definition, not mistakes: the literature leaves them open, and each library is
consistent with itself. Anyone who compares the numbers of two papers must know which choice was made; that is
all that this page is for. "Right" is a rule that agrees with its source on all ordinary inputs. Hostile inputs
(NaN, infinities, huge numbers) and those far from the origin (models near 1e6 that differ by 1e-6) are counted
apart: sources are silent on them, and not every library is made for them.
"""
READ = """## Read, not run

These are not on PyPI, or hold no rule there. Their code was read, and what it computes is a variant with their
name in `python -m refimpl.audit --list KIND`: Garfield, ByzantineMomentum and MoNNA (LPD-EPFL on GitHub), He et
al. 2022 and Karimireddy et al. 2022 (epfml), Wu et al. 2023 (Zhaoxian-Wu/IOS), Pillutla et al. 2022
(krishnap25/RFA), Baruch et al. 2019 (moranant), FLPoison (vio1etus), FL-Byzantine-Library (CRYPTO-KU), NEBULA,
Murmura (Cloudslab), the notebooks of NDSS 2021 (vrt1shjwlkr), BRIDGE's codes (INSPIRE-Lab-US). Of Blades, what
is on PyPI has attacks and no rules, and needs Ray.
"""


class Peer(NamedTuple):
    """A call that is judged; of several of a kind, the first is the one that a user would try first."""

    name: str
    kind: str  # of refimpl.audit.KINDS
    call: str  # as a reader would write it
    function: Callable[..., Any]
    remark: str
    form: str = "numpy"


class Library(NamedTuple):
    """A section of the page."""

    title: str
    package: str
    sentence: str
    peers: Callable[[], list[Peer]]
    names: Callable[[], list[str]] = list  # of what it defines, if these are listed


NAN = "A NaN of one client makes the result NaN, as in `numpy.median`: a server may prefer to see it."
CHOSEN = "A score of NaN wins `numpy.argmin`: check inputs first, and it does not matter."
LOWER = "Of two middle values the lower, as in `torch.median`."
N_F_1 = "A choice: n - f - 1 others are counted, by Blanchard et al. n - f - 2."


def byzfl_peers() -> list[Peer]:
    a, k = libraries.byzfl()
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
        Peer("MultiKrum", "multi-krum", "MultiKrum(f)(W)", lambda W, f: a.MultiKrum(f)(W),
             f"{N_F_1} It keeps the n - f best, where Blanchard et al. leave m open, up to n - f - 2."),
        Peer("GeometricMedian", "geometric-median", "GeometricMedian()(W)", lambda W: a.GeometricMedian()(W),
             "A choice: T = 3 steps from 0 by default, which suits gradients more than models."),
        Peer("GeometricMedian", "geometric-median", "GeometricMedian(nu=1e-5, T=200)(W)",
             lambda W: a.GeometricMedian(nu=1e-5, T=200)(W), "With more steps it gets there."),
        Peer("MDA", "mda", "MDA(f)(W)", lambda W, f: a.MDA(f)(W), "The same."),
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
    f = libraries.flower()
    clients = lambda W: [([w], 1) for w in W]  # per client a list of layers and a number of samples
    return [
        Peer("aggregate", "average", "aggregate(results)", lambda W: f.aggregate(clients(W))[0],
             "The same, if every client reports as many samples."),
        Peer("aggregate_median", "median", "aggregate_median(results)",
             lambda W: f.aggregate_median(clients(W))[0], f"The same. {NAN}"),
        Peer("aggregate_trimmed_avg", "trimmed-mean", "aggregate_trimmed_avg(results, f / n)",
             lambda W, b: f.aggregate_trimmed_avg(clients(W), b / len(W))[0],
             "The obvious share loses a model to rounding at some sizes; `scipy.stats.trim_mean` does so too."),
        Peer("aggregate_trimmed_avg", "trimmed-mean", "aggregate_trimmed_avg(results, (f + 1/4) / n)",
             lambda W, b: f.aggregate_trimmed_avg(clients(W), (b + 0.25) / len(W))[0],
             "It is told a share and cuts int(share * n): with a little more, it is the same."),
        Peer("aggregate_krum", "krum", "aggregate_krum(results, f, 0)",
             lambda W, b: f.aggregate_krum(clients(W), b, 0)[0], f"The same. {CHOSEN}"),
        Peer("aggregate_krum", "multi-krum", "aggregate_krum(results, f, n - f - 2)",
             lambda W, b: f.aggregate_krum(clients(W), b, len(W) - b - 2)[0], "The same."),
        Peer("aggregate_bulyan", "bulyan", "aggregate_bulyan(results, f, aggregate_krum, to_keep=0)",
             lambda W, b: f.aggregate_bulyan(clients(W), b, f.aggregate_krum, to_keep=0)[0], "The same."),
    ]  # fmt: skip


def byzpy_peers() -> list[Peer]:
    c, g, k = libraries.byzpy()  # torch is what it computes with if it is there
    peers = [
        Peer(
            "CoordinateWiseMedian",
            "median",
            "CoordinateWiseMedian().aggregate(list(W))",
            lambda W: c.CoordinateWiseMedian().aggregate(list(W)),
            f"The same. {NAN}",
        ),
        Peer(
            "CoordinateWiseTrimmedMean",
            "trimmed-mean",
            "CoordinateWiseTrimmedMean(f).aggregate(list(W))",
            lambda W, f: c.CoordinateWiseTrimmedMean(f).aggregate(list(W)),
            "The same, but for what more than f models of NaN lead to.",
        ),
        Peer(
            "MeanOfMedians",
            "trimmed-mean",
            "MeanOfMedians(f).aggregate(list(W))",
            lambda W, f: c.MeanOfMedians(f).aggregate(list(W)),
            "Another rule, and meant to be: the mean around the median, of middle values the lower.",
        ),
        Peer("Krum", "krum", "Krum(f).aggregate(list(W))", lambda W, f: g.Krum(f).aggregate(list(W)), N_F_1),
        Peer(
            "Krum",
            "krum",
            "Krum(f + 1).aggregate(list(W))",
            lambda W, f: g.Krum(f + 1).aggregate(list(W)),
            "So it is Blanchard's. Distances are by the Gram identity, which cancels far from 0.",
        ),
        Peer(
            "MultiKrum",
            "multi-krum",
            "MultiKrum(f, n - f - 2).aggregate(list(W))",
            lambda W, f: g.MultiKrum(f, len(W) - f - 2).aggregate(list(W)),
            N_F_1,
        ),
        Peer(
            "MultiKrum",
            "multi-krum",
            "MultiKrum(f + 1, n - f - 2).aggregate(list(W))",
            lambda W, f: g.MultiKrum(f + 1, len(W) - f - 2).aggregate(list(W)),
            "It keeps at most n - f - 1 of that f, and so is Blanchard's.",
        ),
        Peer(
            "GeometricMedian",
            "geometric-median",
            "GeometricMedian().aggregate(list(W))",
            lambda W: g.GeometricMedian().aggregate(list(W)),
            "Weiszfeld's steps never leave a model, and the start, a coordinate median, can be one.",
        ),
        Peer(
            "GeometricMedian",
            "geometric-median",
            "GeometricMedian(init='mean').aggregate(list(W))",
            lambda W: g.GeometricMedian(init="mean").aggregate(list(W)),
            "From the mean it gets there.",
        ),
        Peer(
            "MinimumDiameterAveraging",
            "mda",
            "MinimumDiameterAveraging(f).aggregate(list(W))",
            lambda W, f: g.MinimumDiameterAveraging(f).aggregate(list(W)),
            "The same.",
        ),
        Peer(
            "EmpireAttack",
            "fall-of-empires",
            "EmpireAttack(-epsilon).apply(honest_grads=list(honest))",
            lambda honest, epsilon: k.EmpireAttack(-epsilon).apply(honest_grads=list(honest)),
            "The same.",
        ),
    ]
    return [peer._replace(form="torch") for peer in peers]  # fmt: skip


def fedml_peers() -> list[Peer]:
    krum, bulyan, median, trimmed = libraries.fedml()
    as_dict = lambda W: [(1.0, OrderedDict(w=w)) for w in W]  # per client a number of samples and tensors
    mean = lambda kept: sum(w["w"] for _, w in kept) / len(kept)
    said = lambda W, f, **more: SimpleNamespace(byzantine_client_num=f, client_num_per_round=len(W), **more)
    return [
        Peer("CoordinateWiseMedianDefense", "median", "CoordinateWiseMedianDefense(config)",
             lambda W: median.CoordinateWiseMedianDefense(None).defend_on_aggregation(as_dict(W))["w"],
             LOWER, form="torch"),
        Peer("CoordinateWiseTrimmedMeanDefense", "trimmed-mean", "CoordinateWiseTrimmedMeanDefense(config)",
             lambda W, f: mean(trimmed.CoordinateWiseTrimmedMeanDefense(said(W, f, beta=(f + 0.25) / len(W)))
                               .defend_before_aggregation(as_dict(W))),
             "Clients are sorted by their number of samples; a note in the code has the coordinates as a plan.",
             form="torch"),
        Peer("KrumDefense", "krum", "KrumDefense(config)",
             lambda W, f: mean(krum.KrumDefense(said(W, f)).defend_before_aggregation(as_dict(W))),
             "The same; scores are in float32.", form="torch"),
        Peer("BulyanDefense", "bulyan", "BulyanDefense(config)",
             lambda W, f: bulyan.BulyanDefense(said(W, f)).run(as_dict(W))["w"],
             "A choice, and that of Baruch et al.: it keeps one value less.", form="torch"),
    ]  # fmt: skip


def openfl_peers() -> list[Peer]:
    median, geometric, average = libraries.openfl()
    local = lambda W: [SimpleNamespace(tensor=w, weight=1 / len(W)) for w in W]
    return [
        Peer("WeightedAverage", "average", "WeightedAverage().call(local_tensors)",
             lambda W: average.WeightedAverage().call(local(W)), "The same, with equal weights."),
        Peer("Median", "median", "Median().call(local_tensors)",
             lambda W: median.Median().call(local(W)), f"The same. {NAN}"),
        Peer("GeometricMedian", "geometric-median", "GeometricMedian().call(local_tensors)",
             lambda W: geometric.GeometricMedian().call(local(W)),
             "After Pillutla et al., whose steps start from the same weights each time; here they add up."),
    ]  # fmt: skip


class Sent(NamedTuple):
    """A model with the methods that p2pfl's aggregators call."""

    w: np.ndarray

    def get_parameters(self) -> list[np.ndarray]:
        return [self.w]

    def get_num_samples(self) -> int:
        return 1

    def get_contributors(self) -> list[str]:
        return []

    def build_copy(self, params: list[np.ndarray], **about: Any) -> "Sent":
        return Sent(params[0])


def p2pfl_peers() -> list[Peer]:
    krum, median, average = libraries.p2pfl()
    return [
        Peer("FedAvg", "average", "FedAvg().aggregate(models)",
             lambda W: average.FedAvg().aggregate(list(map(Sent, W))).w,
             "The same, with equal numbers of samples."),
        Peer("FedMedian", "median", "FedMedian().aggregate(models)",
             lambda W: median.FedMedian().aggregate(list(map(Sent, W))).w, f"The same. {NAN}"),
        Peer("Krum", "krum", "Krum().aggregate(models)",
             lambda W, f: krum.Krum().aggregate(list(map(Sent, W))).w,
             "It is told no f, and sums over all others, as its text says: a medoid, if there is one tensor."),
        Peer("Krum", "medoid", "Krum().aggregate(models)",
             lambda W: krum.Krum().aggregate(list(map(Sent, W))).w, f"So it is this. {CHOSEN}"),
    ]  # fmt: skip


LIBRARIES = (
    Library("ByzFL", "byzfl", "Many rules and attacks, for numpy and for torch, and a text with each.",
            byzfl_peers, lambda: defined_in(*libraries.byzfl())),
    Library("Flower", "flwr", "Its rules are the papers' own, and easy to call without the rest of it.",
            flower_peers, lambda: defined_in(libraries.flower())),
    Library("ByzPy", "byzpy", "A young library with clear texts, which say what is computed.", byzpy_peers,
            lambda: defined_in(*libraries.byzpy())),
    Library("FedML", "fedml", "A large library, of which a small part is judged here, without `RFADefense`, "
            "which needs the rest.", fedml_peers),
    Library("OpenFL", "openfl", "Its functions of aggregation can be read, and called, one by one.",
            openfl_peers),
    Library("p2pfl", "p2pfl", "Peer to peer as the paper is, with rules that are short and say what they do.",
            p2pfl_peers),
)  # fmt: skip


Judged = list[tuple[Peer, Report]]


def row(peer: Peer, report: Report) -> str:
    """A row of the page: what a call is judged as, the verdict, and a remark."""
    verdict = report.verdict
    for group, like in (report.by_group or {}).items():
        verdict += f"; {group}: {like.name}"
    if report.variant:
        verdict += f": {report.variant.name} ({report.variant.ordinary})"
    if report.closest:
        verdict += f"; closest: {report.closest.name} ({report.closest.ordinary})"
    agreed = str(report.agreement or " ".join(report.problem.split()))
    return f"| {' | '.join([f'`{peer.call}`', peer.kind, verdict, agreed, peer.remark])} |"


def odd(peer: Peer, report: Report) -> str:
    """A line on what else the audit noticed; empty if nothing."""
    found = [note for note in report.notes if re.match(r"changes|writes|gives|refuses 0 of|.*: no, ", note)]
    return f"- `{peer.call}`: {'; '.join(found)}." if found else ""


def section(library: Library, judged: Judged) -> str:
    """A library: a row per call, what else was noticed, and what there is no definition for here."""
    notes = [line for line in (odd(*pair) for pair in judged) if line]
    known = {peer.name for peer, _ in judged}
    left = ", ".join(f"`{name}`" for name in library.names() if name not in known)
    lines = [f"## {library.title} {version(library.package)}", "", library.sentence, ""]
    lines += ["| call | judged as | verdict | agrees with the definition | remark |", "|---|---|---|---|---|"]
    lines += [*(row(*pair) for pair in judged), ""]
    lines += ["Also noticed:", "", *notes, ""] if notes else []
    lines += [f"Not judged, because there is no definition of them here: {left}.", ""] if left else []
    return "\n".join(lines)


def table(judged: dict[str, Judged]) -> str:
    """Kinds by libraries: what is said of the first call of the kind."""
    kinds = [kind for kind in KINDS if any(peer.kind == kind for pairs in judged.values() for peer, _ in pairs)]
    lines = [f"| | {' | '.join(judged)} |", "|---" * (1 + len(judged)) + "|"]
    for kind in kinds:
        first = [next((word(r) for peer, r in pairs if peer.kind == kind), "") for pairs in judged.values()]
        lines.append(f"| {kind} | {' | '.join(first)} |")
    return "\n".join(lines)


def word(report: Report) -> str:
    """The verdict in a word."""
    if report.status == NOT_JUDGED:
        return "refuses"
    return "right" if report.status == RIGHT else "variant" if report.variant else "different"


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
    judged = {
        library.title: [(p, judge(p.function, p.kind, form=p.form, shrinks=False)) for p in library.peers()]
        for library in LIBRARIES
    }
    packages = " ".join(f"{library.package}=={version(library.package)}" for library in LIBRARIES)
    head = HEAD.format(packages=packages, table=table(judged)).strip()
    sections = [section(library, judged[library.title]).strip() for library in LIBRARIES]
    return "\n\n".join([head, *sections, READ])


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write docs/PEERS.md instead of printing it")
    options = parser.parse_args(arguments)
    if absent := missing(*(library.package for library in LIBRARIES), "torch"):
        print(f"peers.py: {' and '.join(absent)} not installed", file=sys.stderr)
        return 2
    if options.write:
        write(PAGE, page())
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))
