"""Writes docs/PEERS.md: what `refimpl.audit` says about the rules and attacks of ByzFL and Flower.

    pip install --no-deps byzfl flwr && python benchmarks/peers.py > docs/PEERS.md

Both are called as their users call them; where a convention differs, the call says how it is translated.
"""

import importlib.util
import re
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from common import byzfl

from refimpl.audit import Report, judge

HEAD = """# Peers

What `python -m refimpl.audit` says about the rules and attacks of ByzFL {byzfl} and Flower {flwr} (from PyPI,
with numpy {numpy}), as `python benchmarks/peers.py > docs/PEERS.md` writes it. "Agrees" counts ordinary inputs;
inputs far from the origin and hostile ones (NaN, infinities, 1e300) follow. Most differences are choices of
definition, not mistakes: the literature leaves them open, and each library is consistent with itself. To
compare two papers' numbers one has to know which choice was made; that is all that this page is for.

| function | judged as | called as | verdict | agrees with the definition | it is | remark |
|---|---|---|---|---|---|---|"""


class Peer(NamedTuple):
    name: str
    kind: str
    call: str  # as a reader would write it
    function: Callable[..., Any]
    remark: str
    form: str = "numpy"


def flower() -> ModuleType:
    """Flower's aggregation functions by themselves: the names that they import only annotate."""
    spec = importlib.util.find_spec("flwr")
    path = Path(str(spec and spec.origin)).parent / "server" / "strategy" / "aggregate.py"
    names = ("flwr", "flwr.common", "flwr.server", "flwr.server.client_proxy")
    stubs: dict[str, Any] = {name: ModuleType(name) for name in names}
    for name in ("FitRes", "NDArray", "NDArrays", "parameters_to_ndarrays"):
        setattr(stubs["flwr.common"], name, object)
    stubs["flwr.server.client_proxy"].ClientProxy = object
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(stubs)
    try:
        loader = importlib.util.spec_from_file_location("flower_aggregate", path)
        assert loader
        assert loader.loader
        module = importlib.util.module_from_spec(loader)
        loader.loader.exec_module(module)
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
    return module


def peers() -> list[Peer]:
    """Every rule and attack of the two that is a kind of the audit."""
    a, k, f = byzfl().aggregators, byzfl().attacks, flower()
    clients = lambda W: [([w], 1) for w in W]  # Flower: per client a list of layers and a number of samples
    nan = "A NaN from one client makes the result NaN, as numpy.median does; a server may prefer to see it."
    chosen = (
        "Scores of NaN win numpy.argmin, so that a model of NaN is chosen; checking inputs first avoids it."
    )
    return [
        Peer("ByzFL Average", "average", "Average()(W)", lambda W: a.Average()(W), "The same."),
        Peer("ByzFL Median", "median", "Median()(W)", lambda W: a.Median()(W), nan),
        Peer("ByzFL TrMean", "trimmed-mean", "TrMean(f)(W)", lambda W, f: a.TrMean(f)(W),
             "The same; they differ only in what is returned when more than f models are NaN."),
        Peer(
            "ByzFL Krum",
            "krum",
            "Krum(f)(W)",
            lambda W, f: a.Krum(f)(W),
            "A choice: its text counts n - f models with the model itself, Blanchard et al. n - f - 2 others. "
            + chosen,
        ),
        Peer(
            "ByzFL Krum",
            "krum",
            "Krum(f + 1)(W)",
            lambda W, f: a.Krum(f + 1)(W),
            "With f + 1 it is Blanchard's. " + chosen,
        ),
        Peer(
            "ByzFL MultiKrum",
            "krum",
            "MultiKrum(f)(W)",
            lambda W, f: a.MultiKrum(f)(W),
            "Another rule, of course: the mean of the n - f best.",
        ),
        Peer(
            "ByzFL Meamed",
            "trimmed-mean",
            "Meamed(f)(W)",
            lambda W, f: a.Meamed(f)(W),
            "Another rule: the mean around the median.",
        ),
        Peer(
            "ByzFL Krum, tensors",
            "krum",
            "Krum(f + 1)(torch.tensor(W))",
            lambda W, f: a.Krum(f + 1)(W),
            "Tensors are cast to float32: no difference to most uses, but models that agree to seven digits "
            "cannot be told apart.",
            form="torch",
        ),
        Peer(
            "ByzFL SignFlipping",
            "sign-flip",
            "tile(SignFlipping()(W))",
            lambda W: np.tile(k.SignFlipping()(W), (len(W), 1)),
            "A choice: it negates the mean of the honest vectors, the paper an attacker's own model.",
        ),
        Peer(
            "ByzFL SignFlipping",
            "fall-of-empires",
            "SignFlipping()(honest)",
            lambda honest: k.SignFlipping()(honest),
            "As Fall of Empires with epsilon 1 it is right.",
        ),
        Peer(
            "ByzFL InnerProductManipulation",
            "fall-of-empires",
            "InnerProductManipulation(epsilon)(honest)",
            lambda honest, epsilon: k.InnerProductManipulation(epsilon)(honest),
            "The same attack under its other name. Its default is 2, ours 1.",
        ),
        Peer(
            "ByzFL ALittleIsEnough",
            "alie",
            "ALittleIsEnough(z)(honest)",
            lambda honest, z: k.ALittleIsEnough(z)(honest),
            "A choice: it adds, Baruch et al. subtract, and an attacker may do either. The divisor is h - 1 "
            "where its text has h; with a single honest vector that is 0 / 0.",
        ),
        Peer("Flower aggregate", "average", "aggregate([([w], 1) ...])", lambda W: f.aggregate(clients(W))[0],
             "The same, if every client reports as many samples."),
        Peer("Flower aggregate_median", "median", "aggregate_median([([w], 1) ...])",
             lambda W: f.aggregate_median(clients(W))[0], nan),
        Peer("Flower aggregate_trimmed_avg", "trimmed-mean", "aggregate_trimmed_avg(..., (f + 1/4) / n)",
             lambda W, b: f.aggregate_trimmed_avg(clients(W), (b + 0.25) / len(W))[0],
             "The same: it is told a share and cuts int(share * n)."),
        Peer("Flower aggregate_trimmed_avg", "trimmed-mean", "aggregate_trimmed_avg(..., f / n)",
             lambda W, b: f.aggregate_trimmed_avg(clients(W), b / len(W))[0],
             "The obvious share loses one to rounding at some sizes, as scipy.stats.trim_mean does."),
        Peer("Flower aggregate_krum", "krum", "aggregate_krum([([w], 1) ...], f, 0)",
             lambda W, b: f.aggregate_krum(clients(W), b, 0)[0], "The same definition. " + chosen),
    ]  # fmt: skip


def row(peer: Peer, report: Report) -> str:
    variant = report.variant or report.closest
    known = "-" if variant is None else f"{variant.name} ({variant})"
    if report.closest:
        known = f"closest: {known}"
    cells = [peer.name, peer.kind, f"`{peer.call}`", report.verdict, str(report.agreement), known, peer.remark]
    return f"| {' | '.join(cells)} |"


def notes(peer: Peer, report: Report) -> str:
    """What else the audit noticed."""
    odd = [note for note in report.notes if re.match(r"changes|writes|gives|refuses [01] of|.*: no, ", note)]
    return f"- {peer.name}, `{peer.call}`: {'; '.join(odd)}." if odd else ""


def main() -> None:
    print(HEAD.format(byzfl=version("byzfl"), flwr=version("flwr"), numpy=np.__version__))
    judged = [(p, judge(p.function, p.kind, form=p.form, shrinks=False)) for p in peers()]
    print("\n".join(row(*pair) for pair in judged))
    print("\n## Also noticed\n")
    print("\n".join(line for line in (notes(*pair) for pair in judged) if line))


if __name__ == "__main__":
    main()
