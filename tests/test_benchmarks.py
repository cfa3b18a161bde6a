import importlib.util
import json
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("rounds", Path(__file__).parents[1] / "benchmarks" / "rounds.py")
rounds = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rounds)


def test_a_row_per_task_and_dtype_with_ordered_quartiles(tmp_path, capsys):
    assert rounds.main(["--tasks", "spambase", "--rounds", "3", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["spambase", "float64"], ["spambase", "float32"]]
    assert max(map(len, lines)) <= 80
    for row in json.loads((tmp_path / "rounds.json").read_text()):
        low, median, high = row["ms"]["cpu"]
        assert 0 < low <= median <= high


def test_gpu_adds_a_column(tmp_path, capsys, xp):
    assert rounds.main(["--gpu", "--tasks", "spambase", "--rounds", "1", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split()[3:5] == ["cpu", "gpu"]
    assert all(set(row["ms"]) == {"cpu", "gpu"} for row in json.loads((tmp_path / "rounds.json").read_text()))


def test_gpu_without_cupy_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit) as caught:
        rounds.main(["--gpu", "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()
