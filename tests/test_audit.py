"""The judge: the definitions come back right, every known variant and every mutant under its own name."""

import builtins
import json
import re
import subprocess
import sys
import textwrap
import time
from unittest import mock

import numpy as np
import pytest
from mutants import MUTANTS

from refimpl import aggregate, algorithm, attacks, layers, models, optim, released, train
from refimpl.aggregate import RULES
from refimpl.attacks import ATTACKS
from refimpl.audit import KINDS, judge, report, shrink, small, trial
from refimpl.audit.__main__ import main
from refimpl.audit.agreement import agree, answer_of
from refimpl.audit.cases import FAR, HOSTILE, Case, tolerances
from refimpl.audit.kinds import adam
from refimpl.audit.suite import cases_of, definition
from refimpl.audit.variants import VARIANTS

ALL = [(kind, variant) for kind in KINDS for variant in VARIANTS[kind]]
each_variant = pytest.mark.parametrize(("kind", "variant"), ALL, ids=[f"{k}: {v.name}" for k, v in ALL])
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However busy the machine is, all cases are asked and examples are made as small as can be."""
    for module, name in ((trial, "SECONDS"), (shrink, "AT_MOST")):
        monkeypatch.setattr(module, name, 100.0)


def lightly(first, names):
    """All of them, but only the first outside of the slow tests."""
    return [name if name == first else pytest.param(name, marks=pytest.mark.slow) for name in names]


# --- The definitions ----------------------------------------------------------------------------------------


@each_kind
def test_the_definition_is_right(kind):
    said = judge(KINDS[kind].define, kind)
    assert (said.status, said.verdict) == (report.RIGHT, "right"), said
    assert said.agreement.ordinary.of >= 50
    assert not [note for note in said.notes if "no, in" in note or "writes" in note or "changes" in note], said
    assert kind in ("alie-z", "metropolis-weights", "round") or said.groups["float32"].of > 0


def single(value):
    return value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


@pytest.mark.parametrize("kind", lightly("krum", [kind for kind in KINDS if kind not in ("round", "alie-z")]))
def test_the_definition_in_single_precision_is_right(kind):
    said = judge(lambda *inputs: single(KINDS[kind].define(*map(single, inputs))), kind)
    assert said.status == report.RIGHT, said
    assert "changes dtype: float64 in, float32 out; it was asked in float32" in said.notes


def test_a_rule_for_lists_of_vectors_is_called_with_one():
    def average(models):
        assert isinstance(models, list)
        return sum(models) / len(models)

    said = judge(average, "average")
    assert (said.status, said.form) == (report.RIGHT, "list of arrays"), said


def test_torch_is_not_imported():
    code = "import sys; from refimpl.audit import judge; judge(abs, 'sgd'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("kind", ["krum", "medoid"])
def test_no_choice_among_drawn_models_hangs_on_rounding(kind):
    """In float32, and with 64 bits of mantissa, the same model is chosen."""
    for case in cases_of(kind):
        if case.group in ("refused", "vectors", HOSTILE, FAR):
            continue
        W, *f = case.inputs
        for dtype in (np.float32, np.longdouble):
            assert np.allclose(KINDS[kind].define(W.astype(dtype), *f).astype(float), case.expected, 1e-5), (
                case.name
            )


# --- The variants -------------------------------------------------------------------------------------------


@each_kind
def test_every_kind_has_variants_with_names_of_their_own(kind):
    names = [variant.name for variant in VARIANTS[kind]]
    assert len(set(names)) == len(names) >= 4


def comes_back(kind, variant):
    said = judge(variant.compute, kind, shrinks=False)
    assert said.status == report.DIFFERENT
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


def from_lists(arguments, given):
    """Inputs that are written down as lists and numbers: arrays of float64, labels int64, graphs bool."""
    dtypes = {"y": int, "graph": bool}
    return tuple(
        np.array(value, dtypes.get(name, float)) if isinstance(value, list) else value
        for name, value in zip(arguments, given, strict=True)
    )


@each_variant
def test_two_inputs_tell_a_variant_from_the_definition(kind, variant):
    assert len(variant.apart) == 2
    assert repr(variant.apart[0]) != repr(variant.apart[1])
    for given in variant.apart:
        if kind == "round":
            case = next(case for case in cases_of(kind) if case.name == given[0])
        else:
            inputs = from_lists(KINDS[kind].arguments, given)
            case = Case("", "", inputs, definition(KINDS[kind], inputs), *tolerances(""))
        answer = answer_of(variant, case)
        assert answer is not None
        assert not agree(case, case.expected, answer)


# --- The mutants --------------------------------------------------------------------------------------------


def steps(w, gradients, mu):
    """Adam as the table of optimisers has it, over all gradients."""
    memory = np.zeros((2, *w.shape), w.dtype)
    for t, g in enumerate(gradients, start=1):
        w, memory = optim.OPTIMIZERS["adam"].step(w, g, memory, mu, t)
    return w


# What is judged when a name is patched, and as what. The functions look the name up when they are called.
JUDGED = {
    (aggregate, "inverse_risk_weights"): [
        ("inverse-risk-weights", lambda r: aggregate.inverse_risk_weights(r))
    ],
    (aggregate, "adaptive_weights"): [("adaptive-weights", lambda r, own: aggregate.adaptive_weights(r, own))],
    (aggregate, "combine"): [("combine", lambda c, W: aggregate.combine(c, W))],
    (aggregate, "average"): [("average", lambda W: aggregate.average(W))],
    (aggregate, "medoid"): [("medoid", lambda W: aggregate.medoid(W))],
    (aggregate, "coordinate_median"): [("median", lambda W: aggregate.coordinate_median(W))],
    (aggregate, "trimmed_mean"): [("trimmed-mean", lambda W, f: aggregate.trimmed_mean(W, f))],
    (aggregate, "krum"): [("krum", lambda W, f: aggregate.krum(W, f))],
    (attacks, "sign_flip"): [("sign-flip", lambda W, sigma: attacks.sign_flip(W, sigma))],
    (attacks, "arbitrary"): [("arbitrary", lambda W, signals: attacks.arbitrary(W, signals))],
    (attacks, "fall_of_empires"): [("fall-of-empires", lambda h, e: attacks.fall_of_empires(h, e))],
    (attacks, "a_little_is_enough"): [("alie", lambda h, z: attacks.a_little_is_enough(h, z))],
    (attacks, "alie_z"): [("alie-z", lambda n, f: attacks.alie_z(n, f))],
    (layers, "softmax_cross_entropy"): [
        ("softmax-cross-entropy", lambda z, y: layers.softmax_cross_entropy(z, y))
    ],
    (optim, "sgd"): [("sgd", lambda w, g, mu: optim.sgd(w, g, None, mu, 1)[0])],
    (optim, "adam"): [("adam", adam)],
    ("OPTIMIZERS", "adam"): [("adam", steps)],
    (aggregate, "trim"): [("round", lambda *inputs: algorithm.round_(*inputs))],
}
for name in ("squared_distances", "row_of_least", "require_krum"):
    JUDGED[aggregate, name] = JUDGED[aggregate, "krum"] + JUDGED[aggregate, "medoid"]
for where, name in (
    *((algorithm, name) for name in ("round_", "messages", "risk", "aggregation_step", "local_step")),
    *(("RULES", name) for name in RULES),
    *(("ATTACKS", name) for name in ATTACKS),
):
    JUDGED[where, name] = [("round", lambda *inputs: algorithm.round_(*inputs))]

RIGHT = {  # what is right as long as one asks about one neighbourhood, and where the report says what is not
    "one receiver's position for all": "",
    "one receiver's weights for all": "",
    "average over the first axis": "",
    "one choice for all neighbourhoods": "",
    "weights in float64": "changes dtype: float32 in, float64 out",
    "average in float64": "changes dtype: float32 in, float64 out",
    "Krum allows n = 2f + 2": "refuses 1 of 2 inputs that the definition refuses",
}
CLOSEST = {  # two mistakes in one, or half of one: the nearest name is right
    "FoE over all workers": "attacks see all workers' models",
    "an infinite entry is trusted": "L2 left out of the risk",
}


def table_of(where):
    tables = (("RULES", RULES), ("ATTACKS", ATTACKS), ("OPTIMIZERS", optim.OPTIMIZERS))
    return next((name for name, table in tables if where is table), where)


JUDGED_MUTANTS = [
    pytest.param(*mutant[:4], kind, function, id=f"{mutant[0]} ({kind})")
    for mutant in MUTANTS
    if not isinstance(mutant[1], dict) or table_of(mutant[1]) is not mutant[1]
    for kind, function in JUDGED.get((table_of(mutant[1]), mutant[2]), [])
]


def patched(where, name, mutate, function):
    """The function with the mutant in place, but only while it runs: the judge's own definitions stay right."""
    if isinstance(where, dict):
        mutant, patch = mutate(where[name]), mock.patch.dict
        return lambda *inputs: _within(patch(where, {name: mutant}), function, inputs)
    mutant = mutate(getattr(where, name))
    return lambda *inputs: _within(mock.patch.object(where, name, mutant), function, inputs)


def _within(context, function, inputs):
    with context:
        return function(*inputs)


def test_no_mutant_of_these_families_is_forgotten():
    """Those that are not judged are of layers and networks, of evaluation, of the released code; or about
    whole numbers, which are not asked about. A new one needs an entry in refimpl/audit/variants."""
    judged = {parameters.values[0] for parameters in JUDGED_MUTANTS}
    left = {(table_of(where), name) for what, where, name, *_ in MUTANTS if what not in judged}
    others = {layers, models.Network, algorithm.Setting, released, train}
    assert {(where, name) for where, name in left if where not in others} <= {(aggregate, "wide")}


@pytest.mark.slow
@pytest.mark.parametrize(("what", "where", "name", "mutate", "kind", "function"), JUDGED_MUTANTS)
def test_a_mutant_comes_back_under_its_own_name(what, where, name, mutate, kind, function):
    said = judge(patched(where, name, mutate, function), kind, shrinks=False)
    if what in RIGHT or (what, kind) == ("Krum allows n = 2f + 2", "medoid"):
        assert said.status == report.RIGHT, said
        assert kind == "medoid" or not RIGHT[what] or RIGHT[what] in said.notes
    elif what in CLOSEST:
        assert said.status == report.DIFFERENT
        assert (said.variant or said.closest).name == CLOSEST[what], said
    else:
        assert said.status == report.DIFFERENT
        names = [found.name for found in (said.variant, said.closest, *(said.by_group or {}).values()) if found]
        assert what in names, said


# --- What the report says -----------------------------------------------------------------------------------


def byzfl_krum(W, f):
    D = np.sort(((W[:, None] - W) ** 2).sum(-1), axis=1)[:, 1 : len(W) - f]
    return W[D.sum(axis=1).argmin()]


@pytest.mark.slow
def test_the_smallest_input_and_the_arithmetic():
    said = judge(byzfl_krum, "krum")
    small = said.difference
    assert small.case == "the smallest input found"
    W = np.array(json.loads(small.inputs["W"]))
    f = int(small.inputs["f"])
    assert W.size <= 6
    assert (json.loads(small.expected), json.loads(small.answer)) == (
        aggregate.krum(W, f).tolist(),
        byzfl_krum(W, f).tolist(),
    )
    assert f"n - f - 2 = {len(W) - f - 2} nearest others: model 0: " in small.why
    assert "n - f - 1" in said.variant.name
    assert f"agrees in {said.variant.ordinary}" in " ".join(str(said).split())


def test_without_hypothesis_the_first_drawn_case_is_shown(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == "hypothesis":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert shrink.smallest(small.models, lambda inputs: True, False) is None
    said = judge(lambda W: W.sum(axis=0), "average")
    assert said.difference.case in [case.name for case in cases_of("average")]
    assert said.variant.name == "the sum"


def sorts_in_place(W, f):
    W.sort(axis=0)
    return W[f : len(W) - f].mean(axis=0)


def first_model_twice(W):
    return (W.sum(axis=0) + W[0]) / (len(W) + 1)


def shrunk(W):
    return W.mean(axis=0) * 0.9


calls_so_far = [0]


def forgetful(W):
    calls_so_far[0] += 1
    return W.mean(axis=0) + calls_so_far[0]


@pytest.mark.parametrize(
    ("function", "kind", "note"),
    [
        (sorts_in_place, "trimmed-mean", "writes to its inputs: W"),
        (lambda W: W.mean(axis=0).astype(np.float32), "average", "changes dtype: float64 in, float32 out"),
        (lambda W: W.mean(axis=0), "average", "keeps the dtype"),
        (first_model_twice, "average", "independent of the order of the models: no, in "),
        (shrunk, "average", "moves with a translation of the models: no, in 8 of 8 cases"),
        (shrunk, "average", "independent of the order of the models: yes"),
        (forgetful, "average", "gives different answers to the same input"),
        (lambda W, f: aggregate.krum(W, f) if len(W) > 2 else W[0], "krum", "refuses 2 of 2"),
        (byzfl_krum, "krum", "refuses 0 of 2 inputs that the definition refuses"),
        (
            lambda W: int(np.linalg.norm(W[:, None] - W, axis=-1).sum(axis=1).argmin()),
            "medoid",
            "number of a model",
        ),
    ],
)
def test_notes(function, kind, note):
    said = judge(function, kind, shrinks=False)
    assert [line for line in said.notes if note in line], said


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
    assert "by group    n even 3 of 15, " in str(said)
    assert len(json.loads(said.difference.inputs["W"])) % 2 == 0
    assert "the middle two: (" in said.difference.why
    assert max(map(len, str(said).splitlines())) <= 80


def test_right_but_for_hostile_inputs_is_not_right():
    said = judge(lambda W: np.where(np.isnan(W).any(), 7.0, aggregate.average(W)), "average", shrinks=False)
    assert (said.status, said.verdict) == (report.DIFFERENT, "right, but for the cases counted apart")


# --- Rounds -------------------------------------------------------------------------------------------------


def test_the_fast_engine_is_right():
    said = judge(lambda s, *rest: train.fast(s)(*rest), "round")
    assert said.status == report.RIGHT, said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutate", "step"),
    [
        (
            lambda made: made._replace(gradient=2 * made.gradient, state=made.state._replace(W=made.local)),
            "gradient",
        ),
        (lambda made: made._replace(sent=-made.sent), "sent"),
        (lambda made: made._replace(risks=made.risks + 1), "risks"),
        (lambda made: made._replace(state=made.state._replace(W=made.state.W + 1)), "W"),
    ],
)
def test_the_first_step_that_leaves_the_path(mutate, step):
    said = judge(lambda *inputs: mutate(algorithm.round_(*inputs)), "round")
    assert (said.status, said.step) == (report.DIFFERENT, step)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"optimizer": "sgd"}, "local step"),
        ({"attack": "none"}, "what attackers send and keep"),
        ({"risk": "batch"}, "risks and weights"),
    ],
)
def test_the_first_step_from_the_parameters_alone(change, step):
    def round_(s, state, *rest):
        s = s._replace(**change)
        memory = state.memory if s.optimizer == "adam" else state.memory[:0]
        return algorithm.round_(s, state._replace(memory=memory), *rest).state.W

    assert judge(round_, "round").step == step


# --- Functions that misbehave -------------------------------------------------------------------------------


def hangs(W):
    while True:
        time.sleep(0.01)


def hangs_on_nan(W):
    return hangs(W) if np.isnan(W).any() else W.mean(axis=0)


def raises(W):
    raise KeyError("where is\nthe server?")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (hangs, r"no answer within 1 s$"),
        (hangs_on_nan, r"no answer within 1 s to .*; \d+ of \d+ agreed before"),
        (raises, r"cannot be called as \(W\) -> \(d,\)\nKeyError: "),
        (lambda W: sys.exit(3), r"SystemExit: 3"),
        (lambda W: W.nonsense, r"with list of arrays: AttributeError: 'list' object has no "),
        (lambda W: np.asarray(W), r"returns shape \(\d, \d\) where \(\d,\) is expected"),
        (lambda W: None, r"returns None, not an array of numbers"),
        (lambda W: (W[0], {"score": 1}), r"not an array of numbers"),
        (lambda: 0, r"cannot be called as \(W\) -> \(d,\)\nTypeError: "),
    ],
)
@pytest.mark.slow
def test_what_cannot_be_judged_is_reported(function, problem):
    said = judge(function, "average", limit=1)
    assert said.status == report.NOT_JUDGED
    assert re.search(problem, said.problem)


def test_a_slow_function_is_judged_on_part_of_the_cases(monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 0.3)
    said = judge(lambda W: time.sleep(0.02) or W.mean(axis=0), "average")
    assert (said.status, said.verdict) == (report.RIGHT, "right, as far as it was asked")
    assert said.agreement.ordinary.of < 30
    assert [note for note in said.notes if note.startswith("slow: ")]


def test_unknown_kind():
    with pytest.raises(ValueError, match=r"unknown kind 'kruml', choose from adaptive-weights, "):
        judge(byzfl_krum, "kruml")


def test_what_a_function_prints_does_not_get_into_the_report(capsys):
    """Even if it never comes back."""

    def talks(W):
        print("hello")
        return hangs(W) if np.isnan(W).any() else W.mean(axis=0)

    print(judge(talks, "average", limit=1))
    printed = capsys.readouterr()
    assert "hello" in printed.err
    assert "hello" not in printed.out
    assert printed.out.startswith("talks, judged as average: could not be judged")


# --- The command --------------------------------------------------------------------------------------------


@pytest.fixture
def rules(tmp_path, monkeypatch):
    (tmp_path / "my_rules.py").write_text(
        textwrap.dedent(
            """
            import numpy as np

            print("imported")

            def total(W):
                return np.sum(W, axis=0)

            class Mean:
                def __init__(self, f):
                    self.f = f

                def __call__(self, W):
                    return np.mean(W, axis=0)

            number = 3
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["my_rules:total", "{}/my_rules.py:total"])
def test_command(rules, capsys, target):
    assert main([target.format(rules), "--as", "average"]) == 1
    out = capsys.readouterr().out
    assert "judged as average: a known variant" in " ".join(out.split())
    assert "the sum: not divided by n" in out
    assert max(map(len, out.splitlines()[1:])) <= 80


def test_command_with_another_call(rules, capsys):
    assert main(["my_rules:Mean", "--as", "average", "--call", "lambda W: Mean(2)(W)"]) == 0
    assert capsys.readouterr().out.startswith("lambda W: Mean(2)(W), judged as average: right\n")


def test_command_as_json(rules, capsys):
    assert main(["my_rules:total", "--as", "average", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["variant"]["ordinary"]["agreed"] == said["variant"]["ordinary"]["of"]
    assert said["difference"]["why"].startswith("coordinate 0: (0 + 1) / 2 = 0.5")
    assert list(said) == list(report.Report._fields)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_rules:total"], "needs MODULE:FUNCTION and --as KIND"),
        (["my_rules", "--as", "krum"], "needs MODULE:FUNCTION, got 'my_rules'"),
        (["my_rules:medoid", "--as", "krum"], "my_rules has no medoid"),
        (["my_rules:number", "--as", "krum"], "my_rules:number cannot be called"),
        (["no_such_module:krum", "--as", "krum"], "cannot import no_such_module: ModuleNotFoundError: "),
        (["no_such_file.py:krum", "--as", "krum"], "cannot import no_such_file.py: FileNotFoundError: "),
        (["my_rules:total", "--as", "krum", "--call", "lambda W:"], "--call 'lambda W:': SyntaxError: "),
        (["my_rules:total", "--as", "krum", "--form", "torch"], "--form torch needs torch"),
        (["my_rules:total", "--as", "krum", "--limit", "0"], "--limit needs a positive number of seconds"),
    ],
)
def test_a_bad_command_line_is_one_line(rules, capsys, monkeypatch, arguments, message):
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # another test may have imported it
    assert main(arguments) == 2
    err = capsys.readouterr().err.removeprefix("imported\n")  # what the module prints
    assert err.startswith(f"refimpl.audit: {message}")
    assert err.count("\n") == 1


def test_a_reader_may_close_the_pipe():
    command = f"{sys.executable} -m refimpl.audit --list | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (0, 1, "")


def test_the_list_names_every_kind_and_variant(capsys):
    assert main(["--list"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for kind, variant in ALL:
        assert f"{kind}: " in out
        assert f"- {variant.name}: " in out
