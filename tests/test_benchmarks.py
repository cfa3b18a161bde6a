import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest

from refimpl.fast import engine, parallel

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# b: byzfl has it too; y: there is a yardstick.
FUNCTIONS = {"adaptive": "", "inverse-risk": "", "average": "b", "medoid": "y", "trimmed-mean": "by"}
FUNCTIONS |= {"median": "by", "krum": "by", "medoid, foe": "y", "krum, foe": "by", "sign-flip": ""}
FUNCTIONS |= {"arbitrary": "", "foe": "b", "alie": "b"}


@pytest.fixture(params=[False, True], ids=["alone", "beside torch"])
def with_torch(request, monkeypatch):
    """Without torch and byzfl, as most users have it; and with them, where they are installed."""
    if request.param:
        for package in ("torch", "byzfl"):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed")
    else:
        monkeypatch.setattr(load("timing", monkeypatch).libraries, "missing", lambda *packages: list(packages))
    return request.param


def load(name, monkeypatch):
    """The script as a module, its folder on the path as when it runs."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


def table(capsys):
    said = capsys.readouterr()
    assert max(map(len, said.out.splitlines())) <= 80
    return said.out.splitlines(), said.err


def check_quartiles(ms):
    for low, median, high in ms.values():
        assert 0 < low <= median <= high


def test_rounds_beside_torch_and_the_floor(tmp_path, capsys, monkeypatch, with_torch):
    options = [
        "--tasks",
        "spambase",
        "--rounds",
        "1",
        "--threads",
        "1",
        "--processes",
        "1",
        "--out",
        str(tmp_path),
    ]
    assert load("rounds", monkeypatch).main(options) == 0
    lines, said = table(capsys)
    torch = ["plain", "fast"] if with_torch else []
    assert lines[2].split() == ["refimpl", *torch, "floor"]
    assert lines[7].split() == ["refimpl", *torch[1:], "floor"]  # on all local data
    assert [line.split()[:3] for line in lines[3:5]] == [["spambase", bits, "1"] for bits in ("32", "64")]
    assert lines[8].split()[:3] == ["spambase", "32", "1"]
    assert ("torch is missing" in said) != with_torch
    rows = json.loads((tmp_path / "rounds.json").read_text(encoding="utf-8"))["results"]
    assert [row["risk"] for row in rows] == ["batch", "batch", "local"]
    for row in rows:
        check_quartiles(row["ms"])


def test_a_table_goes_between_its_markers(tmp_path, capsys, monkeypatch):
    timing = load("timing", monkeypatch)
    monkeypatch.setattr(timing, "PAGE", tmp_path / "page.md")
    timing.PAGE.write_text("above\n<!-- mine -->\n\n    old\n\n<!-- end of mine -->\nbelow\n", encoding="utf-8")
    made = timing.Table()
    for text in ("", "a  b", "", "1  2", ""):
        made.say(text)
    made.into_page("mine")
    page = "above\n<!-- mine -->\n\n    a  b\n\n    1  2\n\n<!-- end of mine -->\nbelow\n"
    assert timing.PAGE.read_text(encoding="utf-8") == page
    assert [line for line in made.of_page("mine") if line] == ["a  b", "1  2"]


@pytest.mark.parametrize("name", ["rounds", "profile", "threads", "rules", "scale", "grid"])
def test_the_page_has_a_place_for_every_table(name):
    page = (BENCHMARKS.parent / "docs" / "engineering" / "PERFORMANCE.md").read_text(encoding="utf-8")
    assert page.count(f"<!-- {name} -->\n\n    ") == page.count(f"\n\n<!-- end of {name} -->") == 1


@pytest.mark.slow
def test_threads_are_watched_in_the_parts_that_they_share(monkeypatch):
    """And the parts take no longer than the round; afterwards nobody watches."""
    threads = load("threads", monkeypatch)
    shared = parallel.parallel_for
    for count in (1, 2):
        found = threads.profile("har", "batch", count, 0.1)
        whole = found.pop(threads.ROUND)[0]
        assert {"engine.local_steps", "engine.attack", "networks.logits", "rules.combine_into"} == set(found)
        assert 0 < sum(took for took, *_ in found.values()) < whole
        for took, here, there in found.values():
            assert max(here, there) <= took
            assert there == 0 or count == 2
    assert engine.parallel_for is shared


def test_the_grid_takes_as_many_runs_in_torch(tmp_path, capsys, monkeypatch):
    grids = load("grids", monkeypatch)
    monkeypatch.setattr(
        grids,
        "GRIDS",
        {"spambase": ("--rules adaptive median --attacks alie none --epochs 1", 3), "other": (None, 1)},
    )
    page = tmp_path / "page.md"
    monkeypatch.setattr(grids.timing, "PAGE", page)
    page.write_text(
        "<!-- grid -->\n\n    spambase old\n    other   kept\n\n<!-- end of grid -->\n", encoding="utf-8"
    )
    assert grids.main(["--tasks", "spambase", "--jobs", "1", "--write", "--out", str(tmp_path)]) == 0
    assert "spambase old" not in page.read_text(encoding="utf-8")
    assert "\n    other   kept\n" in page.read_text(encoding="utf-8")
    lines, _ = table(capsys)
    name, runs, _, scoring, *_ = lines[3].split()
    assert (name, runs, scoring) == ("spambase", "4", "2")
    assert (tmp_path / "grids.json").exists()


@pytest.mark.parametrize("task", ["spambase", "har", "mnist"])
def test_all_columns_arrive_at_the_same_parameters(task, monkeypatch):
    pytest.importorskip("torch", reason="torch is in the extra 'bench'")
    load("rounds", monkeypatch).check(task, None)
    if task != "mnist":
        load("rounds", monkeypatch).check(task, None, "local")
    for attack in ("none", "sign-flip", "arbitrary", "foe") if task == "spambase" else ():
        load("rounds", monkeypatch).check(task, None, "local", attack)


@pytest.mark.parametrize(("task", "expected"), [("spambase", 10 * 20), ("har", 30 * 10), ("mnist", 10 * 64)])
def test_the_floor_counts_every_product(task, expected, monkeypatch):
    """Forwards once for each row and model, backwards twice but for the first layer, and Eq. (3)."""
    c = load("rounds", monkeypatch).case(task, "float32")
    layers = {
        "spambase": [57 * 20, 20 * 2],
        "har": [561 * 100, 100 * 6],
        "mnist": [28**2 * 9 * 32, 14**2 * 288 * 64, 6**2 * 576 * 64, 576 * 128, 128 * 10],
    }[task]
    local_step = 3 * sum(layers) - layers[0]
    receivers = c.N - c.F
    products = expected * local_step + expected * receivers * sum(layers) + receivers * c.N * c.W.shape[1]
    assert load("rounds", monkeypatch).flops(c) == 2 * products


def test_rules_beside_byzfl_and_their_yardsticks(tmp_path, capsys, monkeypatch, with_torch):
    assert load("rules", monkeypatch).main(["--sizes", "spambase", "--turns", "1", "--out", str(tmp_path)]) == 0
    lines, said = table(capsys)
    assert ("no columns of byzfl" in said) != with_torch
    assert [line[:14].rstrip() for line in lines[2:] if line] == list(FUNCTIONS)
    for row in json.loads((tmp_path / "rules.json").read_text(encoding="utf-8"))["results"]:
        check_quartiles(row["ms"])
        assert ("yardstick" in row["ms"]) == ("y" in FUNCTIONS[row["name"]])
        assert ("byzfl" in row["ms"]) == ("b" in FUNCTIONS[row["name"]] and with_torch)


@pytest.mark.slow
def test_scale_fits_an_exponent_and_draws(tmp_path, capsys, monkeypatch):
    scale = load("scale", monkeypatch)
    sweeps = {"workers": [(10, 2, 3), (20, 2, 3)], "rows": [(10, 2, 3, n, "local") for n in (30, 60)]}
    monkeypatch.setattr(scale, "SWEEPS", sweeps)
    assert scale.main(["--sweeps", *sweeps, "--rounds", "1", "--out", str(tmp_path)]) == 0
    lines, said = table(capsys)
    results = json.loads((tmp_path / "scale.json").read_text(encoding="utf-8"))["results"]
    for i, (name, x) in enumerate({"workers": [10, 20], "rows": [30, 60]}.items()):
        assert lines[5 * i].split()[:2] == [name, "ms"]
        assert [int(line.split()[0]) for line in lines[5 * i + 1 : 5 * i + 3]] == results[name]["x"] == x
        assert f"{name}^{results[name]['exponent']:.2f}" in lines[5 * i + 3]
        assert all(mb > 10 or math.isnan(mb) for mb in results[name]["MB"])
    assert (tmp_path / "scale.png").exists() or "matplotlib does not import" in said


def test_a_point_has_the_rows_and_the_risk_that_it_is_given(monkeypatch):
    scale, made = load("scale", monkeypatch), []
    built = scale.engine
    monkeypatch.setattr(scale, "engine", lambda s: made.append(s) or built(s))
    assert scale.point(1, 10, 2, 3)["rows"] == 40
    assert scale.point(1, 10, 2, 3, 30, "local")["rows"] == 30
    assert [(s.risk, len(s.y[0])) for s in made] == [("batch", 40), ("local", 30)]


def test_memory_is_unknown_where_python_cannot_tell(monkeypatch):
    """As on Windows, which has neither /proc nor the module resource."""
    scale = load("scale", monkeypatch)
    monkeypatch.setattr(Path, "exists", lambda path: False)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert math.isnan(scale.peak())


def test_the_exponent_is_the_slope_of_the_larger_half(monkeypatch):
    scale = load("scale", monkeypatch)
    assert scale.exponent([1, 2, 4, 8], [7, 7, 3 * 4**1.5, 3 * 8**1.5]) == pytest.approx(1.5)


@pytest.mark.parametrize("name", ["rounds", "rules", "scale"])
@pytest.mark.parametrize("out", ["", __file__])
def test_a_folder_that_cannot_be_is_refused_before_measuring(name, out, capsys, monkeypatch):
    script = load(name, monkeypatch)
    monkeypatch.setattr(script.timing, "take_turns", lambda *_: pytest.fail("measured"))
    with pytest.raises(SystemExit) as caught:
        script.main(["--out", out])
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "--out" in said.err


@pytest.mark.slow
def test_gpu_adds_a_column(tmp_path, capsys, monkeypatch, xp):
    options = ["--gpu", "--tasks", "spambase", "--rounds", "1", "--threads", "1", "--out", str(tmp_path)]
    assert load("rounds", monkeypatch).main(options) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:2] == ["refimpl", "gpu"]


def test_gpu_without_cupy_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit) as caught:
        load("rounds", monkeypatch).main(["--gpu", "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()
