"""The vectors as a stranger uses them: JSON in, numbers out. And the tools around them.

Case by case, the functions are bound to refimpl's in tests/vectors/functions.py, as in the generator; a reading
of the format that shares no line with either is examples/port/check.mjs (test_port.py).
"""

import copy
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from platforms import make_pipe, needs_full, needs_shell

from refimpl import models, vectors
from refimpl.attacks import ATTACKS

ROOT = Path(__file__).parents[1]
GENERATOR = ROOT / "tests" / "vectors"
sys.path.insert(0, str(GENERATOR))

from functions import FUNCTIONS  # noqa: E402
from kept_numbers import kept  # noqa: E402

FILES = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(vectors.FOLDER.glob("*.json"))
}
FAMILIES = (
    "adam affine attacks cnn combine conv2d graphs maxpool2d mlp related round rules sgd softmax_cross_entropy "
    "trajectory weights"
)


def each(key):
    """One parameter per entry of all files."""
    return [
        pytest.param(entry, id=f"{name}/{entry['id']}") for name, file in FILES.items() for entry in file[key]
    ]


class Named:
    """A model built from its description, checked against the layout that the file publishes."""

    def __init__(self, kind, layout=None, size=None, **given):
        self.model = getattr(models, kind)(**given)
        fields = [
            {"name": field.name, "offset": field.offset, "shape": list(field.shape), "fan_in": field.fan_in}
            for field in self.model.layout.fields
        ]
        assert layout in (None, fields)
        assert size in (None, self.model.layout.size)


def run(entry):
    inputs = vectors.decode(entry["inputs"])
    for key in ("attackers", "edges"):
        if key in inputs:
            inputs[key] = np.asarray(inputs[key], dtype=int)
    if "model" in inputs:
        inputs["model"] = Named(**inputs["model"])
    return FUNCTIONS[entry["function"]](**inputs)


# --- refimpl against the vectors ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", each("cases"))
def test_refimpl_gives_the_expected_numbers(case):
    try:
        made = run(case)
    except ValueError as error:
        pytest.fail(f"refused: {error}")
    assert set(made) == set(case["expected"])
    for key, expected in case["expected"].items():
        assert vectors.first_mismatch(key, expected, vectors.encode(made[key]), case["tolerances"][key]) is None


@pytest.mark.parametrize("case", each("errors"))
def test_refimpl_refuses_with_the_facts(case):
    with pytest.raises(ValueError, match=r"needs|must|unknown|names") as raised:
        run(case)
    for fact in case["error"]["facts"]:
        assert fact in str(raised.value)


# --- The files ----------------------------------------------------------------------------------------------


def test_all_families_are_there_and_small():
    assert list(FILES) == FAMILIES.split()
    assert sum(path.stat().st_size for path in vectors.FOLDER.iterdir()) < 4e6


def test_every_attack_has_vectors():
    """By its name, or in a function of that name; that of sph is called spectral."""
    cases = [case for file in FILES.values() for case in file["cases"]]
    named = {case["inputs"].get("attack") for case in cases}
    named |= {case["function"].replace("_", "-") for case in cases}
    assert set(ATTACKS) - named == {"sph"}
    assert "spectral" in named


def arrays(value):
    """Every {shape, data} inside a value."""
    if isinstance(value, dict) and "data" in value:
        yield value
    elif isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from arrays(entry)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_of_the_form_that_it_promises(name):
    file = FILES[name]
    assert file["name"] == name
    entries = [*file["cases"], *file["errors"]]
    assert len({entry["id"] for entry in entries}) == len(entries)
    for case in file["cases"]:
        outputs = file["outputs"][case["function"]]
        assert list(case["expected"]) == [name for name in outputs if name in case["expected"]]
        assert set(case["tolerances"]) == set(case["expected"])
    for array in arrays(entries):
        assert math.prod(array["shape"]) == len(array["data"])


@pytest.mark.parametrize("name", FILES)
def test_decimals_round_trip(name):
    """Every number with a point or an exponent is the shortest decimal of its binary64 value."""
    written = []
    json.loads(
        (vectors.FOLDER / f"{name}.json").read_text(encoding="utf-8"),
        parse_float=lambda text: written.append(text) or 0.0,
    )
    assert all(repr(float(text)) == text for text in written)


@pytest.fixture(scope="module")
def schema():
    """The validator of the published schema."""
    jsonschema = pytest.importorskip("jsonschema", reason="a CuPy environment may be without it")
    text = (vectors.FOLDER.parent / "schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_fits_the_schema(schema, name):
    schema.validate(FILES[name])


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda f: f.pop("reference"), "$"),
        (lambda f: f.update(author="me"), "$"),
        (lambda f: f.update(name="wheights"), "$.name"),
        (lambda f: f.update(version=2), "$.version"),
        (lambda f: f.update(version=True), "$.version"),
        (lambda f: f.update(notes=[]), "$.notes"),
        (lambda f: f.update(outputs=["weights"]), "$.outputs"),
        (lambda f: f["outputs"].update(adaptive_weights="weights"), "$.outputs.adaptive_weights"),
        (lambda f: f["cases"][0].update(comment="A good case."), "$.cases[0].comment"),
        (lambda f: f["cases"][0].update(id="Two words"), "$.cases[0].id"),
        (lambda f: f["cases"][0]["tolerances"].update(weights="roughly"), "$.cases[0].tolerances.weights"),
        (lambda f: f["cases"][0]["tolerances"]["weights"].update(rtol=-1), "$.cases[0].tolerances.weights"),
        (lambda f: f["cases"][0]["expected"]["weights"].update(shape=[-4]), "$.cases[0].expected.weights"),
        (lambda f: f["cases"][0]["expected"]["weights"].update(data=[None]), "$.cases[0].expected.weights"),
        (lambda f: f["cases"][0]["inputs"].update(risks={"data": [1]}), "$.cases[0].inputs.risks"),
        (lambda f: f["cases"][0]["inputs"].update(own=True), "$.cases[0].inputs.own"),
        (lambda f: f["cases"][0]["inputs"].update(model={"kind": "rnn"}), "$.cases[0].inputs.model"),
        (lambda f: f["errors"][0]["error"].update(facts=[]), "$.errors[0].error.facts"),
        (lambda f: f["errors"][0].update(expected={}), "$.errors[0]"),
    ],
)
def test_the_schema_rejects_other_forms(schema, change, where):
    file = {key: value[:1] if key in ("cases", "errors") else value for key, value in FILES["weights"].items()}
    file = copy.deepcopy(file)
    schema.validate(file)
    change(file)
    assert {error.json_path.removesuffix(".kind") for error in schema.iter_errors(file)} == {where}


@pytest.mark.slow
def test_the_files_are_what_the_generator_writes(tmp_path):
    """Everything but the expected floats exactly; those within each case's tolerance, because another
    machine's BLAS and libm may round otherwise. On one machine the files are equal byte for byte."""
    command = [sys.executable, str(GENERATOR / "generate.py"), "--out", str(tmp_path)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": path}, capture_output=True)
    again = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(tmp_path.iterdir())}
    assert list(again) == list(FILES)
    for name, file in FILES.items():
        assert list(vectors.mismatches(file, again[name])) == []
        fixed = [
            [{key: value for key, value in case.items() if key != "expected"} for case in version["cases"]]
            for version in (file, again[name])
        ]
        assert fixed[0] == fixed[1]
        for key in ("name", "version", "reference", "notes", "outputs", "errors"):
            assert file[key] == again[name][key]


def test_a_published_number_stays_to_the_last_bit(tmp_path):
    """What the generator adds comes behind it. A number that is not close to the published one is refused."""
    path, published = tmp_path / "rules.json", FILES["rules"]
    path.write_text(json.dumps(published | {"cases": published["cases"][:2]}), encoding="utf-8")
    again = copy.deepcopy(published)
    first, new = again["cases"][0]["expected"]["w"]["data"], again["cases"][2]["expected"]["w"]["data"]
    first[0], new[0] = np.nextafter(first[0], 9).item(), 8.0
    assert kept(again, path)["cases"] == [*published["cases"][:2], *again["cases"][2:]]
    assert kept(again, tmp_path / "new.json") == again
    first[0] += 1e-6
    with pytest.raises(AssertionError, match=r"rules/average-is-the-mean-of-the-rows.*\n.*w\[0\]"):
        kept(again, path)


# --- python -m refimpl.vectors check ------------------------------------------------------------------------


def answers(name):
    """A port's file: ids, and what it computed."""
    file = FILES[name]
    cases = [{"id": case["id"], "expected": copy.deepcopy(case["expected"])} for case in file["cases"]]
    errors = [{"id": case["id"], "error": {"kind": "invalid argument"}} for case in file["errors"]]
    return {"name": name, "version": 1, "cases": cases, "errors": errors}


def check(tmp_path, content, *options):
    path = tmp_path / "answers.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return vectors.main(["check", str(path), *options])


@pytest.mark.parametrize("name", FILES)
def test_right_answers_agree(tmp_path, capsys, name):
    assert check(tmp_path, answers(name)) == 0
    total = len(FILES[name]["cases"]) + len(FILES[name]["errors"])
    assert capsys.readouterr().out == f"{name}: {total} of {total} cases agree\n"


def test_the_first_differing_number_is_named(tmp_path, capsys):
    case = next(c for c in FILES["round"]["cases"] if c["id"] == "adaptive-sign-flip")
    content = answers("round")
    mine = next(c for c in content["cases"] if c["id"] == case["id"])
    mine["expected"]["weights"]["data"][7 * 3 + 2] += 1e-6
    mine["expected"]["W"]["data"][0] += 1
    assert check(tmp_path, content) == 1
    was, now = case["expected"]["weights"]["data"][23], mine["expected"]["weights"]["data"][23]
    total = len(FILES["round"]["cases"]) + len(FILES["round"]["errors"])
    assert capsys.readouterr().out == (
        f"round: {total - 1} of {total} cases agree\n  round/adaptive-sign-flip: {case['comment']}\n"
        f"    weights[3, 2]: expected {was}, got {now}\n"
    )


def change_first(key, value):
    return lambda a: a["cases"][0]["expected"].update({key: value})


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        (
            "rules",
            change_first("w", {"shape": [2, 2], "data": [0] * 4}),
            "w: expected shape [4], got shape [2, 2]",
        ),
        ("rules", change_first("w", {"shape": [4], "data": [0]}), "w: expected 4 numbers in data, got [0]"),
        ("rules", change_first("w", [1, 2]), "w: expected shape [4], got [1, 2]"),
        ("rules", lambda a: a["cases"][0]["expected"].clear(), "w: expected shape [4], got nothing"),
        ("rules", lambda a: a["cases"][0]["expected"]["w"]["data"].__setitem__(1, None), "w[1]: expected"),
        ("rules", lambda a: a["cases"][0]["expected"]["w"]["data"].__setitem__(1, "NaN"), ", got NaN"),
        ("rules", lambda a: a["cases"][0]["expected"]["w"]["data"].__setitem__(2, "a lot"), ", got a lot"),
        ("rules", lambda a: a["cases"][0]["expected"]["w"]["data"].__setitem__(2, 10**400), ", got 1000"),
        (
            "rules",
            lambda a: a["cases"][0]["expected"]["w"]["data"].__setitem__(2, {"shape": 1, "data": [1]}),
            ", got {'shape': 1",
        ),
        ("mlp", change_first("size", [{"shape": "x", "data": 3}]), "size: expected 1202, got [{'shape'"),
        (
            "graphs",
            lambda a: a["cases"][0]["expected"]["graph"]["data"].__setitem__(0, 1),
            "[0, 0]: expected True",
        ),
        ("mlp", change_first("names", ["W1", "b1"]), "names: expected a list of 4, got ['W1', 'b1']"),
        ("mlp", change_first("names", ["W1", "b1", "W2", "b3"]), "names[3]: expected b2, got b3"),
        ("mlp", change_first("size", 7), "size: expected 1202, got 7"),
        ("rules", lambda a: a["cases"].pop(0), "answer: expected one, got nothing"),
        ("rules", lambda a: a["cases"].append({"id": "mine"}), "rules/mine: the vectors have no such case"),
        (
            "rules",
            lambda a: a["errors"][0].update(error={"kind": "none"}),
            "error: expected invalid argument, got",
        ),
        (
            "rules",
            lambda a: a["errors"][0]["error"].update(message="krum: no"),
            "error message: expected one with '6', got krum: no",
        ),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(tmp_path, capsys, name, change, line):
    content = answers(name)
    change(content)
    assert check(tmp_path, content) == 1
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expected", "answer", "tolerance", "same"),
    [
        (1.0, 1.0 + 1e-12, {"rtol": 1e-11, "atol": 0}, True),
        (1.0, 1.0 + 1e-12, {"rtol": 1e-13, "atol": 0}, False),
        (0.0, 1e-15, {"rtol": 1e-9, "atol": 0}, False),
        (0.0, 1e-15, {"rtol": 1e-9, "atol": 1e-14}, True),
        (math.nan, math.nan, {"rtol": 1, "atol": 1}, True),
        (math.nan, 1.0, {"rtol": 1, "atol": 1}, False),
        (1.0, math.nan, {"rtol": 1, "atol": 1}, False),
        (math.inf, math.inf, {"rtol": 1, "atol": 1}, True),
        (math.inf, -math.inf, {"rtol": 1, "atol": 1}, False),
        (math.inf, 1e308, {"rtol": 1, "atol": 1}, False),
        (1e308, math.inf, {"rtol": 1e-9, "atol": 1}, False),
        (-0.0, 0.0, "exact", True),
        (3, 3.0, "exact", True),
        (3.0, 3.0000000000000004, "exact", False),
        (True, 1, "exact", False),
    ],
)
def test_close(expected, answer, tolerance, same):
    assert vectors.close(expected, answer, tolerance) is same


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("{", [], "cannot read answers .*answers.json: "),
        ("[]", [], "is not of the form of a vector file: see docs/PORTING.md"),
        ('{"name": "rules", "cases": 3}', [], "is not of the form"),
        *(
            (f'{{"name": "rules", "version": 1, "cases": [{entry}]}}', [], "is not of the form")
            for entry in (
                "[]",
                '{"expected": {}}',
                '{"id": ["a"]}',
                '{"id": "a", "expected": 3}',
                '{"id": "a", "expected": [1]}',
                '{"id": "a", "expected": "w"}',
                '{"id": "a", "error": "invalid argument"}',
                '{"id": "a", "error": {"kind": 3}}',
                '{"id": "a", "error": {"kind": "invalid argument", "message": 6}}',
            )
        ),
        (
            '{"name": "rules", "version": 1, "cases": [{"id": "a"}], "errors": [{"id": "a"}]}',
            [],
            "answers.json has the id 'a' more than once",
        ),
        ("[" * 100000, [], "cannot read answers .*answers.json: "),
        ('{"name": "rule", "version": 1}', [], "names the family 'rule', choose from adam, affine, "),
        ('{"name": "rules", "version": 2}', [], "answers version 2, these are 1"),
        ('{"name": "rules", "version": 1}', ["--vectors", "nowhere"], "no vectors in nowhere: give --vectors "),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_status_2(tmp_path, capsys, content, options, message):
    assert check(tmp_path, content, *options) == 2
    printed = capsys.readouterr()
    assert re.search(message, printed.err)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("what", ["answers", "vectors"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, capsys, monkeypatch, what):
    make_pipe(tmp_path / "rules.json")
    (tmp_path / "answers.json").write_text(json.dumps(answers("rules")), encoding="utf-8")
    asked = {"answers": ["rules.json"], "vectors": ["answers.json", "--vectors", "."]}[what]
    monkeypatch.chdir(tmp_path)
    assert vectors.main(["check", *asked]) == 2
    assert capsys.readouterr().err == f"refimpl.vectors: cannot read {what} rules.json: not a file\n"


@pytest.mark.parametrize("content", [{}, {"version": 1, "cases": [{"id": "a"}], "errors": []}])
def test_a_folder_of_other_files_is_refused_in_a_line(tmp_path, capsys, content):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rules.json").write_text(json.dumps(content), encoding="utf-8")
    assert check(tmp_path, answers("rules"), "--vectors", str(tmp_path / "other")) == 2
    said = capsys.readouterr().err
    assert "rules.json needs to be a vector file, but has no '" in said
    assert said.count("\n") == 1


@needs_shell
@pytest.mark.parametrize(
    ("redirection", "status", "said"),
    [
        ("| true", 141, ""),
        pytest.param(">/dev/full", 2, "[Errno 28] No space left on device\n", marks=needs_full),
    ],
)
def test_the_command_ends_quietly_where_nothing_can_be_printed(tmp_path, redirection, status, said):
    many = f"{vectors.FOLDER}/rules.json " * 20
    command = f"{sys.executable} -m refimpl.vectors check {many} {redirection}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, said)


def test_a_wrong_first_answer_is_not_hidden_by_a_second(tmp_path, capsys):
    content = answers("rules")
    first = copy.deepcopy(content["cases"][0])
    first["expected"]["w"]["data"][0] += 1
    content["cases"].insert(0, first)
    assert check(tmp_path, content) == 2
    assert f"has the id '{first['id']}' more than once" in capsys.readouterr().err


def test_a_bad_command_line_is_status_2(capsys):
    for arguments in ([], ["check"], ["compare", "x.json"]):
        with pytest.raises(SystemExit) as stopped:
            vectors.main(arguments)
        assert stopped.value.code == 2
    assert vectors.main(["check", "no-such-file.json"]) == 2
    assert "cannot read answers no-such-file.json" in capsys.readouterr().err
