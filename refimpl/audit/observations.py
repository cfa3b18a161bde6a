"""What else is observed of a function: inputs, dtypes, order, translation and refusals."""

from collections.abc import Iterator

import numpy as np

from refimpl.audit.caller import Answer, Caller
from refimpl.audit.cases import Case, agree

Pairs = list[tuple[Case, Answer]]

UNCLEAR = ("float32", "ties", "vectors")  # where rounding or the order of the models may decide
PROBES = 8  # cases that are moved


def notes(called: Caller, pairs: Pairs) -> Iterator[str]:
    """One sentence per observed property."""
    yield f"takes its inputs as: {called.form}"
    if called.indices:
        yield "returns the number of a model"
    wrote = sorted({called.kind.arguments[i] for _, answer in pairs for i in answer.wrote})
    yield f"writes to its inputs: {', '.join(wrote)}" if wrote else "does not write to its inputs"
    yield from dtypes(called, pairs)
    yield from relations(called)
    refused = [answer for case, answer in pairs if case.expected is None]
    if refused:
        count = sum(bool(answer.problem) for answer in refused)
        yield f"refuses {count} of {len(refused)} inputs that the definition refuses"
    if len(pairs) < len(called.cases):
        yield f"slow: only {len(pairs)} of {len(called.cases)} cases were asked in {called.seconds:g} s"


def dtypes(called: Caller, pairs: Pairs) -> Iterator[str]:
    """One sentence per dtype that the function does not keep, or a single one if it keeps all."""
    changed = {"float64": "float32"} if called.narrow else {}
    for case, answer in pairs:
        given = [v.dtype for v in case.inputs if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        if given and answer.dtype not in ("", str(given[0])) and not called.indices:
            changed[str(given[0])] = answer.dtype
    if changed:
        asked = "; it was asked in float32" if called.narrow else ""
        yield from (f"changes dtype: {before} in, {after} out{asked}" for before, after in changed.items())
    else:
        yield "keeps the dtype"


def relations(called: Caller) -> Iterator[str]:
    """One sentence per relation: do answers move as they must? A single one if asking twice changes them."""
    probes = [case for case in called.cases if case.telling and case.group not in UNCLEAR][:PROBES]
    first, twice = (_values(called, [case.inputs for case in probes]) for _ in range(2))
    if not all(agree(case, a, b) for case, a, b in zip(probes, first, twice, strict=False)):
        yield "gives different answers to the same input"
        return
    held: dict[str, list[bool]] = {}
    for relation in called.kind.relations:
        moved = _values(called, [relation.inputs(*case.inputs) for case in probes])
        held.setdefault(relation.name, []).extend(
            agree(case, relation.answer(value), after)
            for case, value, after in zip(probes, first, moved, strict=False)
            if value is not None and after is not None and np.shape(value) == np.shape(case.expected)
        )
    for name, all_held in held.items():
        if all_held:
            no = f"no, in {all_held.count(False)} of {len(all_held)} cases"
            yield f"{name}: {'yes' if all(all_held) else no}"


def _values(called: Caller, many: list) -> list:
    """The function's answers to these inputs, as many as come within half a second."""
    return [answer.value for answer in called.answers(many, 0.5)] if many else []
