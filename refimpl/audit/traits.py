"""What else can be said of a function: inputs, dtypes, order, translation and refusals."""

from collections.abc import Iterator

import numpy as np

from refimpl.audit.agreement import agree
from refimpl.audit.calls import Answer
from refimpl.audit.cases import Case
from refimpl.audit.suite import ordinary
from refimpl.audit.trial import SECONDS, Trial, telling

Pairs = list[tuple[Case, Answer]]

UNCLEAR = ("float32", "ties", "vectors")  # where rounding or the order of the models may decide
PROBES = 8  # so many cases are moved


def notes(trial: Trial, pairs: Pairs) -> Iterator[str]:
    """A sentence on each."""
    yield f"takes its inputs as: {trial.caller.form}"
    if trial.indices:
        yield "returns the number of a model"
    wrote = sorted({trial.kind.arguments[i] for _, answer in pairs for i in answer.wrote})
    yield f"writes to its inputs: {', '.join(wrote)}" if wrote else "does not write to its inputs"
    yield from dtypes(trial, pairs)
    yield from relations(trial)
    refused = [answer for case, answer in pairs if case.expected is None]
    if refused:
        count = sum(bool(answer.problem) for answer in refused)
        yield f"refuses {count} of {len(refused)} inputs that the definition refuses"
    if len(pairs) < len(trial.cases):
        yield f"slow: only {len(pairs)} of {len(trial.cases)} cases were asked in {SECONDS:g} s"


def dtypes(trial: Trial, pairs: Pairs) -> Iterator[str]:
    changed = {"float64": "float32"} if trial.narrow else {}
    for case, answer in pairs:
        given = [v.dtype for v in case.inputs if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        if given and answer.dtype not in ("", str(given[0])) and not trial.indices:
            changed[str(given[0])] = answer.dtype
    if changed:
        asked = "; it was asked in float32" if trial.narrow else ""
        yield from (f"changes dtype: {before} in, {after} out{asked}" for before, after in changed.items())
    else:
        yield "keeps the dtype"


def relations(trial: Trial) -> Iterator[str]:
    """Whether answers move as they must, on ordinary models; and whether asking twice changes them."""
    clear = [case for case in ordinary(trial.name) if telling(case) and case.group not in UNCLEAR]
    probes = [trial.cut(case) for case in clear[:PROBES]]
    first, twice = (_values(trial, [case.inputs for case in probes]) for _ in range(2))
    if not all(agree(case, a, b) for case, a, b in zip(probes, first, twice, strict=False)):
        yield "gives different answers to the same input"
        return
    for relation in trial.kind.relations:
        moved = _values(trial, [relation.inputs(*case.inputs) for case in probes])
        held = [
            agree(case, relation.answer(value), after)
            for case, value, after in zip(probes, first, moved, strict=False)
            if value is not None and after is not None and np.shape(value) == np.shape(case.expected)
        ]
        if held:
            yield f"{relation.name}: " + (
                "yes" if all(held) else f"no, in {held.count(False)} of {len(held)} cases"
            )


def _values(trial: Trial, many: list) -> list:
    """Its answers to these inputs, as many as come within half a second."""
    return [answer.value for answer in trial.caller.all(many, 0.5)] if many else []
