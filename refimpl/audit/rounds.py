"""Whole rounds of Algorithm 1 as cases: the groups are the steps of a round, in the order in which they happen.

A function that returns only the next parameters is still told which step leaves the path first: the settings of
a group need its step and those before it, and no later one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from refimpl import algorithm, draws, graphs, models, vectors
from refimpl.aggregate import RULES
from refimpl.algorithm import Setting, State
from refimpl.attacks import ATTACKS
from refimpl.audit.cases import HOSTILE, Case, Drawn, agree
from refimpl.audit.report import Counterexample, format_value
from refimpl.optim import OPTIMIZERS

STEPS = ("gradient", "local", "sent", "risks", "weights", "W")
LADDER = LOCAL, AVERAGE, ATTACK, CHOICE, RISK, _ = (
    "local step",
    "who is averaged",
    "what attackers send and keep",
    "the baselines' choice",
    "risks and weights",
    HOSTILE,
)
NO_CHOICE = {"local": LOCAL, "average": AVERAGE}  # rules by which a round ends earlier


def steps(returned: Any) -> dict[str, Any]:
    """The steps by name from what a round returned: the next W alone, or anything that has W or state."""
    if hasattr(returned, "detach") or not (isinstance(returned, dict) or hasattr(returned, "_fields")):
        return {"W": returned}
    fields = dict(returned) if isinstance(returned, dict) else returned._asdict()
    if "state" in fields:
        fields["W"] = fields["state"].W
    if "W" not in fields:
        raise ValueError(f"returns {', '.join(map(str, fields))}, but neither W nor state")
    return {step: fields[step] for step in STEPS if fields.get(step) is not None}


def round_(setting: Setting, state: State, batch: np.ndarray, signals: np.ndarray | None) -> dict[str, Any]:
    """The steps of a round of Algorithm 1."""
    return steps(algorithm.round_(setting, state, batch, signals))


# --- Settings -----------------------------------------------------------------------------------------------

LIES = ("sign-flip", "arbitrary", "foe", "alie")
LOCAL_STEPS: list[dict[str, Any]] = [
    {},
    {"l2": 0.5},
    {"step_size": lambda k, t: 0.1 * (k + 1) / t},
    {"optimizer": "adam", "step_size": 0.05},
]
IRREGULAR = graphs.from_edges(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4), (1, 3)])


def problem(
    seed: int, graph: np.ndarray, attackers: list[int], hidden: int = 4, latest: int = 2, **options: Any
) -> tuple:
    """(setting, state, batch, signals) of a round of a small network, the third or, by `latest`, a later one.

    Worker 1 has fewer rows.
    """
    rng = np.random.default_rng(seed)
    N, n, model = len(graph), 8, models.mlp([3, hidden, 3])
    X, y = list(rng.normal(size=(N, n, 3)).round(2)), list(rng.integers(0, 3, (N, n)))
    X[1], y[1] = X[1][:6], y[1][:6]
    t, optimizer = int(rng.integers(latest - 2, latest + 1)), OPTIMIZERS[options.get("optimizer", "sgd")]
    W = (3 * draws.initial(model.layout, N, rng)).round(3)
    memory = rng.uniform(0.1, 0.2, (optimizer.slots, *W.shape)).round(3) * (t > 0)
    batch = np.stack([rng.permutation(6)[:3] for _ in range(N)])
    setting = Setting(
        model, X, y, graph, np.array(attackers, int), batch_size=3, **{"step_size": 0.3} | options
    )
    draw = ATTACKS[setting.attack].draw
    signals = draw(len(attackers), W.shape[1], rng).round(3) if draw and attackers else None
    return setting, State(W, memory, t), batch, signals


def draw() -> Drawn:
    """Rounds that need one step more from group to group."""
    whole = graphs.complete(6)
    for seed, graph in enumerate((whole, graphs.ring(6), IRREGULAR)):
        made = [problem(seed, graph, [], rule="local", **options) for options in LOCAL_STEPS]
        made += [problem(seed, graph, [], rule="average")]
        made += [problem(seed, graph, [1, 4], rule="average", attack=attack) for attack in LIES]
        made += [problem(seed, graph, [2], rule=rule, attack="sign-flip") for rule in ("medoid", "median")]
        made += [problem(seed, whole, [2, 3], rule="trimmed-mean", attack="foe")]
        made += [problem(seed, whole, [4], rule="krum", attack="foe")]
        for rule in ("inverse-risk", "adaptive"):
            for attack in ("none", "sign-flip", "alie"):
                made += [problem(seed, graph, [4], rule=rule, attack=attack)]
                made += [problem(seed + 10, graph, [1, 2], rule=rule, attack=attack, risk="batch")]
        made += [problem(seed + 20, graph, [3], rule="adaptive", l2=0.5)]
        yield from ((step_of(inputs[0]), inputs) for inputs in made)
        for rule, bad in (("adaptive", np.nan), ("adaptive", -np.inf), ("inverse-risk", -np.inf)):
            yield HOSTILE, lost(problem(seed, graph, [3], rule=rule), bad)
        yield CHOICE, problem(seed, graphs.complete(10), [], rule="trimmed-mean")
    yield from ((step_of(inputs[0]), inputs) for inputs in larger())


def larger() -> Iterator[tuple]:
    """Rounds of more workers, attackers, parameters and rounds before."""
    known: dict[str, Any] = {
        "graph": graphs.complete(16),
        "attackers": [0, 3, 4, 9, 15],
        "hidden": 12,
        "latest": 20,
    }
    for seed, rule in enumerate(("average", "medoid", "median", "trimmed-mean", "krum", "adaptive")):
        attack, adam = LIES[seed % 4], LOCAL_STEPS[-1]
        yield problem(seed, **known, rule=rule, attack=attack, **adam)


def lost(problem: tuple, bad: float) -> tuple:
    """The attacker's model with one bad entry, a hidden unit's bias: at -infinity its risk looks finite."""
    setting, state, batch, signals = problem
    W = state.W.copy()
    W[setting.attackers, 12] = bad
    return setting, state._replace(W=W), batch, signals


# --- Vectors ------------------------------------------------------------------------------------------------


def from_vectors(function: str, arguments: tuple[str, ...]) -> Iterator[Case]:
    """The rounds of the shipped vectors that a Setting describes: no smoothing, no messages out of nowhere."""
    for entry in vectors.shipped("round")["cases"]:
        given = vectors.decode(entry["inputs"]) if entry["function"] == "round" else {}
        if given.get("smoothing") == 1 and given["attack"] in ATTACKS:
            expected = vectors.decode(entry["expected"])
            wanted = {step: expected[step] for step in STEPS if step in expected}
            inputs = _inputs(given)
            yield Case(entry["id"], step_of(inputs[0]), inputs, wanted, 1e-9, 1e-12)


def step_of(s: Setting) -> str:
    """The last step that a setting needs."""
    if RULES[s.rule].scores:
        return RISK
    if s.rule in NO_CHOICE and len(s.attackers):
        return ATTACK
    return NO_CHOICE.get(s.rule, CHOICE)


def _inputs(given: dict[str, Any]) -> tuple:
    names = ("graph", "attackers", "rule", "attack", "risk", "optimizer")
    batch, W, before, lr = given["batch"], given["W"], given.get("optimizer_state"), given["lr"]
    about = {key: value for key, value in given["model"].items() if key not in ("kind", "layout", "size")}
    setting = Setting(
        getattr(models, given["model"]["kind"])(**about),
        X=[own[labels >= 0] for own, labels in zip(given["X"], given["y"], strict=True)],  # without padding
        y=[labels[labels >= 0] for labels in given["y"]],
        **{name: given[name] for name in names},
        step_size=(lambda k, t: lr[k]) if np.ndim(lr) else lr,
        l2=given.get("l2", 0.0),
        batch_size=batch.shape[1],
    )
    setting = setting._replace(attackers=setting.attackers.astype(int))  # an empty list has no dtype
    state = (
        State(W, np.stack([before["m"], before["v"]]), before["t"]) if before else algorithm.start(setting, W)
    )
    return setting, state, batch, given.get("signals")


# --- Differences --------------------------------------------------------------------------------------------

Values = dict[str, np.ndarray] | None  # the steps that a function returned, None if there was a problem


def counterexample(case: Case, value: Values, problem: str) -> Counterexample:
    """The setting in words, and the first number that differs."""
    inputs = described(*case.inputs[:2])
    if value is None:
        return Counterexample(case.name, inputs, "W", problem)
    step = first_step(case, value)
    expected, answer = case.expected[step], value[step]
    if expected.shape != answer.shape:
        return Counterexample(case.name, inputs, f"{step} of shape {expected.shape}", f"shape {answer.shape}")
    close = np.isclose(answer, expected, rtol=case.rtol, atol=case.atol, equal_nan=True)
    k, i = map(int, np.argwhere(~close)[0])
    place, what = f"{step}[{k}, {i}] = ", "an attacker" if k in case.inputs[0].attackers else "normal"
    why = f"worker {k} is {what}; {(~close).any(axis=1).sum()} of {len(close)} workers' rows differ"
    right, wrong = (place + format_value(array[k, i]) for array in (expected, answer))
    return Counterexample(case.name, inputs, right, wrong, why)


def described(s: Setting, state: State) -> dict[str, str]:
    """A setting in words."""
    about = {"rule": s.rule, "attack": s.attack, "risk": s.risk, "optimizer": s.optimizer, "l2": s.l2}
    neighbours = format_value(s.graph.sum(axis=1) - 1)
    about |= {"attackers": format_value(s.attackers), "neighbours": neighbours, "t": state.t}
    return {name: str(value) for name, value in about.items()}


def first_step(case: Case, value: dict[str, np.ndarray]) -> str:
    """The first of the returned steps that differs."""
    returned = [step for step in STEPS if step in value and step in case.expected]
    return next(step for step in returned if not agree(case, case.expected[step], value[step]))


def leaves_at(different: list[tuple[Case, Values]]) -> str:
    """The step that leaves the path: by what was returned, or if that is W alone by the kind of setting."""
    telling = [first_step(case, value) for case, value in different if value and len(value) > 1]
    if telling:
        return min(telling, key=STEPS.index)
    return min((case.group for case, _ in different), key=LADDER.index)
