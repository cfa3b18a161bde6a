"""The known variants: each comes back under its own name, and so does every mutant that the audit judges."""

from itertools import combinations
from unittest import mock

import pytest
from mutants import specification

from refimpl import aggregate, algorithm, attacks, engine
from refimpl.audit import KINDS, judge, report
from refimpl.audit.cases import agree
from refimpl.audit.kinds import cases_of
from refimpl.audit.variants import VARIANTS, Variant

pytestmark = pytest.mark.usefixtures("patient")
ALL = [(kind, variant) for kind in KINDS for variant in VARIANTS[kind]]
each_variant = pytest.mark.parametrize(("kind", "variant"), ALL, ids=[f"{k}: {v.name}" for k, v in ALL])
ANSWERS = {}


@pytest.fixture(autouse=True)
def remembered(monkeypatch):
    """A variant answers each case once for all tests."""
    answer = Variant.answer

    def once(self, case):
        key = self.compute, id(case)
        if key not in ANSWERS:
            ANSWERS[key] = case, answer(self, case)  # the case stays, and so its id is not another's
        return ANSWERS[key][1]

    monkeypatch.setattr(Variant, "answer", once)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_variants_with_names_of_their_own(kind):
    names = [variant.name for variant in VARIANTS[kind]]
    assert len(set(names)) == len(names) >= 4


def comes_back(kind, variant):
    said = judge(variant.compute, kind, shrinks=False)
    if said.status == report.RIGHT:  # but for what is counted apart
        assert {found.name for found in said.by_group.values()} == {variant.name}, said
        assert said.by_group.keys() == {g for g, count in said.agreement.apart.items() if count.share < 1}
        return
    assert said.variant.name == variant.name, said
    assert said.variant.full
    assert (said.variant.about, said.variant.used_by) == (variant.about, variant.used_by)


@pytest.mark.parametrize("kind", ["adaptive-weights", "median", "alie", "adam"])
def test_the_first_variant_comes_back_under_its_own_name(kind):
    comes_back(kind, VARIANTS[kind][0])


@pytest.mark.slow
@each_variant
def test_a_variant_comes_back_under_its_own_name(kind, variant):
    comes_back(kind, variant)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("bulyan", "round"))) for kind in KINDS]
)
def test_the_cases_tell_the_definition_and_all_variants_apart(kind):
    cases = [case for case in cases_of(kind) if case.expected is not None]
    answers = {"the definition": [case.expected for case in cases]}
    answers |= {variant.name: [variant.answer(case) for case in cases] for variant in VARIANTS[kind]}
    for a, b in combinations(answers, 2):
        assert not all(map(agree, cases, answers[a], answers[b])), (a, b)


# --- Mutants of a part --------------------------------------------------------------------------------------
# A mutant of a definition is one of the variants. With a mutant of a part, the whole is judged.


def krum(W, f):
    return aggregate.krum(W, f)


def medoid(W):
    return aggregate.medoid(W)


def round_(*inputs):
    return algorithm.round_(*inputs)


# What is judged when a part is patched, by the part. The functions look names up when they are called.
WHOLE = {
    "inverse_risk_weights": {"inverse-risk-weights": lambda r: aggregate.inverse_risk_weights(r)},
    "average": {"average": lambda W: aggregate.average(W)},
    "require_krum": {"krum": krum, "medoid": medoid},
    "squared_distances": {"krum": krum, "medoid": medoid},
    "row_of_least": {"krum": krum, "medoid": medoid},
    "trim_count": {"round": round_},
    "risk": {"round": round_},
    "local_step": {"round": round_},
    "foe": {"round": round_},
    "alie": {"round": round_},
}
NAMELESS = {"average weighted by position", "distances of directions", "another worker's memory"}  # nobody's
RIGHT = {  # where the report says what is not
    "weights in float64": "changes dtype: float32 in, float64 out",
    "average in float64": "changes dtype: float32 in, float64 out",
    "Krum allows n = 2f + 2": "refuses 1 of 2 inputs that the definition refuses",
}
CLOSEST = {  # two mistakes in one, or half of one: the nearest name is right
    "FoE over all workers": "attacks see all workers' models",
    "ALIE on everybody, the attackers too": "attacks see all workers' models",
    "an infinite entry is trusted": "L2 left out of the risk",
}

TABLES = (aggregate, attacks, attacks.ATTACKS, aggregate.RULES, algorithm, engine)
NAMES = {variant.name for _, variant in ALL}


def judged(where, name):
    """What is judged when this name is patched, by kind."""
    return WHOLE.get(name, {}) if any(where is table for table in TABLES) else {}


JUDGED = [
    pytest.param(*row[:4], kind, function, id=f"{row[0]} ({kind})")
    for row in specification.MUTANTS
    for kind, function in judged(row[1], row[2]).items()
    if row[0] not in NAMELESS
    and (row[0] not in {variant.name for variant in VARIANTS[kind]} or row[2] != KINDS[kind].define.__name__)
]


def test_no_mutant_of_what_is_judged_is_forgotten():
    """A new one needs a variant of its name. Not asked about: whole numbers, ALIE by those who see less."""
    seen = {parameters.values[0] for parameters in JUDGED} | NAMES | NAMELESS
    rows = [row for row in specification.MUTANTS if any(row[1] is table for table in TABLES)]
    left = {row[2] for row in rows if row[0] not in seen}
    assert left <= {"as_float", "alie-corrupted", "a_little_is_enough_corrupted"}


def patched(where, name, mutate, function):
    """The function with the mutant in place, but only while it runs: the judge's own definitions stay right."""
    entry = isinstance(where, dict)
    mutant = mutate(where[name] if entry else getattr(where, name))

    def compute(*inputs):
        with mock.patch.dict(where, {name: mutant}) if entry else mock.patch.object(where, name, mutant):
            return function(*inputs)

    return compute


@pytest.mark.slow
@pytest.mark.parametrize(("what", "where", "name", "mutate", "kind", "function"), JUDGED)
def test_a_mutant_of_a_part_comes_back_under_its_own_name(what, where, name, mutate, kind, function):
    said = judge(patched(where, name, mutate, function), kind, shrinks=False)
    if what in RIGHT:
        assert said.status == report.RIGHT, said
        assert kind == "medoid" or RIGHT[what] in said.notes
    elif what in CLOSEST:
        assert said.status == report.DIFFERENT
        assert (said.variant or said.closest).name == CLOSEST[what], said
    else:
        names = [found.name for found in (said.variant, said.closest, *(said.by_group or {}).values()) if found]
        assert what in names, said
