"""The judge: the definitions come back right, and a mistake that nobody knows is described."""

import importlib
import json

import contrived
import numpy as np
import pytest
from strangers import byzfl_krum

from refimpl import attacks
from refimpl.audit import KINDS, assert_right, judge, report
from refimpl.audit.caller import Answer
from refimpl.audit.kinds import cases_of

pytestmark = pytest.mark.usefixtures("patient")


def lightly(light, names):
    """All of them, but only the light ones outside of the slow tests."""
    return [name if name in light else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("kind", lightly(KINDS.keys() - {"bulyan", "geometric-median"}, KINDS))
def test_the_definition_is_right(kind):
    said = judge(KINDS[kind].define, kind)
    assert (said.status, said.verdict) == (report.RIGHT, "right"), said
    assert said.agreement.ordinary.of >= 50
    assert not [note for note in said.notes if "no, in" in note or "writes" in note or "changes" in note], said
    assert kind in ("alie-z", "metropolis-weights", "push-weights", "round") or said.groups["float32"].of > 0


def single(value):
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


@pytest.mark.parametrize("kind", lightly(["krum"], [kind for kind in KINDS if kind not in ("round", "alie-z")]))
def test_the_definition_in_single_precision_is_right(kind):
    said = judge(lambda *inputs: single(KINDS[kind].define(*map(single, inputs))), kind)
    assert said.status == report.RIGHT, said
    assert "changes dtype: float64 in, float32 out; it was asked in float32" in said.notes


def test_an_unknown_mistake_is_described_and_the_closest_variant_named():
    """Krum over the n - f - 1 nearest, wrong in another way for many models: not in the table."""
    said = judge(lambda W, f: byzfl_krum(W, f) if len(W) < 12 else W[0], "krum", shrinks=False)
    assert said.variant is None
    assert "n - f - 1" in said.closest.name
    assert said.groups["n odd"].agreed < said.groups["n odd"].of
    assert f"explains {said.closest.explains} differences" in " ".join(str(said).split())


def loops_median(models):
    """Right if n is odd; if it is even, the mean of three."""
    found, n = [], len(models)
    for j in range(len(models[0])):
        column = sorted(float(model[j]) for model in models)
        middle = column[n // 2 : n // 2 + 1] if n % 2 else column[n // 2 - 1 : n // 2 + 2]
        found.append(sum(middle) / len(middle))
    return found


def test_the_report_on_an_unknown_mistake_shows_where_to_look():
    said = judge(loops_median, "median")
    assert said.verdict == "different, and no variant that is known"
    assert (said.variant, said.closest) == (None, None)
    assert said.groups["n odd"].agreed == said.groups["n odd"].of
    assert "by group    n even 3 of 17, " in str(said)
    assert len(json.loads(said.difference.inputs["W"])) % 2 == 0
    assert "the middle two: (" in said.difference.why
    assert max(map(len, str(said).splitlines())) <= 80


def careless_krum(W, f):
    """As a textbook has it, and numpy.argmin likes NaN best."""
    D = np.sort(((W[:, None] - W) ** 2).sum(-1), axis=1)[:, 1 : len(W) - f - 1]
    return W[D.sum(axis=1).argmin()]


@pytest.mark.slow
def test_right_is_right_whatever_hostile_inputs_do_and_strict_counts_them():
    said = judge(careless_krum, "krum")
    assert (said.status, said.verdict, said.difference) == (report.RIGHT, "right", None)
    likes = {group: like.name for group, like in said.by_group.items()}
    assert likes == {"hostile": "an attacker's NaN is chosen"}
    assert said.fates["is captured"] > 0
    said = judge(careless_krum, "krum", shrinks=False, strict=True)
    assert (said.status, said.verdict) == (report.DIFFERENT, "right on ordinary inputs only")


def test_of_variants_alike_the_one_that_is_like_it_under_attack_too():
    """Not the first of the table."""
    said = judge(byzfl_krum, "krum", shrinks=False)
    assert said.variant.name == "n - f - 1, and an attacker's NaN is chosen"


def test_a_variant_in_all_cases_but_few_is_almost_certain_and_the_exception_shown():
    said = judge(lambda W, f: byzfl_krum(W, f) if len(W) != 49 else W[0], "krum", shrinks=False)
    assert (said.status, said.verdict) == (report.DIFFERENT, "almost certainly a known variant")
    assert "n - f - 1" in said.variant.name
    assert said.variant.ordinary.agreed < said.variant.ordinary.of
    assert said.exception.inputs["f"] == "1"  # (n, f) = (49, 1)
    assert "but for     W = [[" in str(said)


@pytest.mark.slow
def test_a_tie_that_rounding_decides_does_not_decide_the_name():
    """Krum over n - f - 1 plain distances, of which those to later models are a little longer than they are."""

    def rounded_another_way(W, f):
        D = np.linalg.norm(W[:, None] - W, axis=-1) * (1 + 1e-14 * np.arange(len(W)))
        return W[np.sort(D, axis=1)[:, 1 : len(W) - f].sum(axis=1).argmin()]

    said = judge(rounded_another_way, "krum", shrinks=False)
    assert said.verdict == "a known variant"
    assert said.variant.name == "Krum with n - f - 1 unsquared distances"
    assert said.variant.ordinary.of < said.agreement.ordinary.of


def test_an_approximate_quantile_is_right():
    assert judge(lambda n, f: attacks.alie_z(n, f) + 5e-8, "alie-z").status == report.RIGHT
    assert judge(lambda n, f: attacks.alie_z(n, f) + 2e-7, "alie-z", shrinks=False).status == report.DIFFERENT


def test_an_error_where_the_variant_has_no_number_is_no_difference():
    """An off-by-one that leaves nothing: numpy's mean is NaN there, a loop divides by 0."""

    def loop(W, f):
        kept = np.sort(W, axis=0)[f : len(W) - f - 1]
        return sum(kept) * (1 / len(kept))

    said = judge(loop, "trimmed-mean", shrinks=False)
    assert (said.verdict, said.variant.name) == ("a known variant", "trims one more above")


def ordinary(kind):
    return [case for case in cases_of(kind) if case.expected is not None and not case.apart]


@pytest.mark.parametrize(("kind", "where"), contrived.WRONG_WHERE)
def test_the_cases_reach_beyond_the_sizes_of_a_blackboard(kind, where):
    assert [case for case in ordinary(kind) if where(*case.inputs)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "where"), contrived.WRONG_WHERE)
def test_a_mistake_at_some_sizes_only_is_not_right(kind, where):
    assert judge(contrived.wrong(kind, where), kind, shrinks=False).status == report.DIFFERENT


def test_what_agreed_before_a_hang_is_counted():
    case = ordinary("average")[0]
    late = Answer(problem="no answer within 1 s", late=True)
    pairs = [(case, Answer(case.expected)), (case, Answer(case.expected + 1)), (case, late)]
    hung = importlib.import_module("refimpl.audit.judge").hung
    assert hung(pairs) == f"no answer within 1 s to {case.name}; 1 of 2 agreed before"
    assert hung(pairs[:2]) == ""


def median(W):
    """Right, but for NaN."""
    return np.median(W, axis=0)


def lower_median(W):
    return np.sort(W, axis=0)[(len(W) - 1) // 2]


def test_assert_right_is_silent_about_what_is_right_or_known():
    assert_right(median, "median")
    assert_right(lower_median, "median", known="lower median", shrinks=False)


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (
            lower_median,
            {},
            "^lower_median is not median as in BRIDGE-M, Fang et al. 2022; it is a known",
        ),
        (median, {"strict": True}, "^median is right on ordinary inputs, but not on others: hostile"),
        (median, {"known": "lower median"}, "^it is not what it is known as: lower median\nmedian is right"),
        (
            lower_median,
            {"known": "upper median"},
            "^it is not what it is known as: upper median\nlower_median is not",
        ),
        (lambda: 0, {}, "could not be judged as median"),
        (lambda: 0, {"known": "lower median"}, "could not be judged as median"),
    ],
)
def test_assert_right_raises_the_report(function, options, said):
    with pytest.raises(AssertionError, match=said):
        assert_right(function, "median", shrinks=False, **options)


def test_unknown_variant():
    with pytest.raises(
        ValueError, match="unknown variant 'my own' of krum, choose from: Krum with n - f - 1; "
    ):
        assert_right(byzfl_krum, "krum", known="my own")


def test_unknown_kind():
    with pytest.raises(ValueError, match=r"unknown kind 'kruml', did you mean krum"):
        judge(byzfl_krum, "kruml")
