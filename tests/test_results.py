"""Results on disk: JSON files with a seal, CSV rows, and which run of several counts."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from some_results import GRID, as_released, losing, result, with_options

import refimpl
from refimpl.attacks import ATTACKS
from refimpl.experiments import fingerprint, report, results, tables
from refimpl.experiments.results import COLUMNS, as_csv, as_json, as_row, from_json, from_row

# --- The JSON file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run",
    [
        GRID[0],
        losing("krum", "foe", 0, None),
        replace(
            result("adaptive", "foe", 1, 0.5), weights_at={1: [[1.0]], 2: [[0.5]]}, accuracy={"own": [0.5]}
        ),
        result("choco", "foe", 0, 0.5, graph=((0, 1), (1, 2)), graph_schedule=(((0, 1),), ((1, 2),))),
        result("adaptive", "foe", 0, 0.5, released=("adam", "raw-features")),
    ],
)
def test_a_file_gives_the_same_result_again(run, tmp_path):
    (tmp_path / "run.json").write_text(as_json(run), encoding="utf-8")
    assert results.load(tmp_path / "run.json") == run
    content = json.loads(as_json(run))
    assert (next(iter(content)), content["format"], list(content)[-1]) == ("format", 2, "sha256")
    assert hash(results.load(tmp_path / "run.json").config) == hash(run.config)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 1}, "needs the result of a run in format 2, got 1"),
        ({"format": None}, "needs the result of a run in format 2, got None"),
        ({"threads": 2}, "not as it was written"),
        ({"sha256": None}, "not as it was written"),
    ],
)
def test_a_file_of_another_format_or_without_its_seal_is_refused_in_a_line(change, said, tmp_path, capsys):
    content = json.loads(as_json(GRID[0])) | change
    with pytest.raises(ValueError, match=f"^{said}$"):
        from_json(content)
    (tmp_path / "run.json").write_text(json.dumps(content), encoding="utf-8")
    assert report_says(tmp_path, capsys).endswith(f"run.json: {said}\n")


def report_says(path, capsys):
    """The line that the report ends with."""
    with pytest.raises(SystemExit) as caught:
        report.main([str(path)])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_file_without_a_format_is_refused_and_what_is_no_run_is_left_alone(tmp_path, capsys):
    content = json.loads(as_json(GRID[0]))
    del content["format"]
    (tmp_path / "old.json").write_text(json.dumps(content), encoding="utf-8")
    assert "old.json: needs the result of a run in format 2, got none" in report_says(tmp_path, capsys)
    (tmp_path / "old.json").write_text(as_json(GRID[0]), encoding="utf-8")
    (tmp_path / "notes.json").write_text("[1, 2]", encoding="utf-8")
    assert results.read(tmp_path) == [GRID[0]]


def test_a_file_with_an_option_that_nobody_knows_is_refused_in_a_line(tmp_path, capsys):
    content = json.loads(as_json(GRID[0]))
    content["config"]["momentum"] = 0.9
    content["sha256"] = results.seal(content)
    (tmp_path / "run.json").write_text(json.dumps(content), encoding="utf-8")
    assert report_says(tmp_path, capsys).endswith("needs a run of this version's options, got momentum\n")


def test_a_number_that_was_edited_is_not_believed_whatever_became_of_the_seal(tmp_path, capsys):
    content = json.loads(as_json(GRID[0]))
    content["history"]["worst_own"][-1] = 0.99
    for seal in ({}, {"sha256": content["sha256"]}, {"sha256": ""}):
        edited = {name: value for name, value in content.items() if name != "sha256"} | seal
        (tmp_path / "run.json").write_text(json.dumps(edited), encoding="utf-8")
        assert report_says(tmp_path, capsys).endswith("run.json: not as it was written\n")


def test_a_file_from_before_entries_were_kept_can_be_read():
    content = json.loads(as_json(GRID[0]))
    del content["entries"]
    assert from_json(content | {"sha256": results.seal(content)}) == replace(GRID[0], entries="")


def test_the_time_that_a_run_took_is_not_sealed():
    assert from_json(json.loads(as_json(GRID[0])) | {"seconds": 7.0}) == replace(GRID[0], seconds=7.0)


# --- The CSV row --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"released": ("adam", "raw-features")}, {"lr": 1e-05, "l2": 0.1, "plain": True, "device": 3}],
)
def test_a_row_has_the_configuration_the_last_numbers_and_what_computed_them(options):
    run = result("krum", "foe", 3, 0.5, **options)
    row = next(csv.DictReader(io.StringIO(as_csv([run]))))
    assert list(row) == COLUMNS
    again = from_row(row)
    assert again.config == run.config
    assert {name: column[-1] for name, column in run.history.items()} == {
        name: column for name, (column,) in again.history.items()
    }
    for name in ("rounds_per_epoch", "bytes_per_round", "seconds", "data", "code", "entries"):
        assert getattr(again, name) == getattr(run, name)
    assert (again.versions, again.evaluated, again.weights_at) == ({"refimpl": "0"}, [2], {})
    assert as_row(again) == as_row(run)


def test_a_csv_file_may_be_older_than_an_option_that_has_a_default(tmp_path):
    rows = [as_row(GRID[0])]
    for lacks, whole in (("l2", True), ("entries", True), ("lr", False)):
        kept = [{name: value for name, value in row.items() if name != lacks} for row in rows]
        (tmp_path / "runs.csv").write_text(results.csv_text(kept), encoding="utf-8")
        if whole:
            (run,) = results.read(tmp_path / "runs.csv")
            assert run.config == GRID[0].config
        else:
            with pytest.raises(ValueError, match="a difference in lr"):
                results.read(tmp_path / "runs.csv")


def test_a_number_that_is_lost_or_not_known_is_an_empty_cell():
    row = as_row(replace(losing("krum", "foe", 0, None), bytes_per_round=float("nan"), rounds_per_epoch=0))
    empty = {"attacker_weight", "passing", "backdoor_success", "too_few", "graph_schedule", "released"}
    assert {name for name, value in row.items() if value == ""} == empty | {
        "highest_loss", "bytes_per_round", "rounds_per_epoch"
    }  # fmt: skip
    again = from_row({name: str(value) for name, value in row.items()})
    assert again.last("highest_loss") == float("inf")
    assert math.isnan(again.bytes_per_round)
    assert math.isnan(tables.rows([again])[0]["bytes_per_round"])  # and not 0, as of a rule that is silent


def test_graphs_from_files_are_told_apart_by_their_edges():
    path, star = (result("krum", "foe", 0, 0.5, graph=edges) for edges in (((0, 1), (1, 2)), ((0, 1), (0, 2))))
    cells = [as_row(run)["graph"] for run in (path, star)]
    assert cells[0].startswith("edges ")
    assert cells[0] != cells[1]
    assert len(results.groups([path, star])) == 2


def test_other_columns_are_refused_in_a_line(tmp_path, capsys):
    old = as_csv(GRID).replace(",data,", ",datum,", 1)
    (tmp_path / "old.csv").write_text(old, encoding="utf-8")
    said = report_says(tmp_path / "old.csv", capsys)
    assert said.endswith("data version code entries, got a difference in data, datum\n")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[:-80], "runs.csv needs 43 cells in each row, got others in row 2"),
        (lambda text: text.replace("\n", ",more\n").replace("entries,more", "entries"), "got others in row 1"),
        (lambda text: text + "\udcff", "runs.csv needs to be a CSV file, got 'utf-8' codec can't decode"),
        (lambda text: text + '"' + "x" * 200_000, "runs.csv needs to be a CSV file, got field larger than"),
        (lambda text: text.replace(",10,", ",ten,"), "runs.csv, row 1: invalid literal for int"),
        (lambda text: text.replace("adaptive", "../up"), "runs.csv, row 1: results are filed under a name"),
    ],
)
def test_a_damaged_csv_file_is_refused_in_a_line(damage, said, tmp_path, capsys):
    text = damage(as_csv(GRID[:2])).encode("utf-8", "surrogateescape")
    (tmp_path / "runs.csv").write_bytes(text)
    assert said in report_says(tmp_path / "runs.csv", capsys)


def test_brackets_without_end_are_refused_in_a_line(tmp_path, capsys):
    (tmp_path / "run.json").write_text("[" * 200_000, encoding="utf-8")
    assert "run.json needs to be JSON, got maximum recursion depth" in report_says(tmp_path, capsys)


def test_a_folder_becomes_a_csv_file_and_gives_the_same_table(runs_folder, tmp_path, capsys):
    assert report.main([str(runs_folder), "--format", "runs"]) == 0
    (tmp_path / "runs.csv").write_text(capsys.readouterr().out, encoding="utf-8")
    again = results.read(tmp_path / "runs.csv")
    assert tables.text_table(again) == tables.text_table(results.read(runs_folder))
    assert again[0].config.lr == 0.01
    assert {run.versions["refimpl"] for run in again} == {refimpl.__version__}
    assert "passing" in again[0].history
    assert "passing" not in again[-1].history


# --- Many results -------------------------------------------------------------------------------------------


def test_runs_of_several_places_add_up_and_the_last_counts(runs_folder, tmp_path, capsys):
    report.main([str(runs_folder), "--format", "runs"])
    header, *lines = capsys.readouterr().out.splitlines()
    kept = [line for line in lines if line.startswith("spambase,krum")] + [
        lines[0].replace(",0,10,3,", ",7,10,3,", 1)
    ]
    changed = ",".join([*kept[0].split(",")[:-2], "another-code", "another-entry"])
    (tmp_path / "old.csv").write_text("\n".join([header, changed, *kept[1:]]) + "\n", encoding="utf-8")
    assert report.main([str(tmp_path / "old.csv"), str(runs_folder), "--format", "runs"]) == 0
    added = capsys.readouterr().out.splitlines()
    assert added[0] == header
    assert sorted(added[1:]) == sorted([*lines, kept[-1]])  # seed 7 is added, what is in both is the folder's
    assert report.main([str(runs_folder), str(tmp_path / "old.csv"), "--format", "runs"]) == 0
    assert changed in capsys.readouterr().out
    assert report.main([str(runs_folder), str(tmp_path / "old.csv")]) == 0
    assert capsys.readouterr().out.count("task spambase") == 1  # numbers of both kinds of files are the same


def test_of_several_versions_of_the_code_todays_run_counts(runs_folder):
    found = results.read(runs_folder)
    assert all(map(results.is_todays, found))
    older = [replace(run, code="0" * 16) for run in found]
    assert results.each_once(older + found, runs_folder) == found
    own = [replace(run, entries="0" * 16) for run in found]  # a rule of the same name, in a user's script
    assert results.each_once(own + found, runs_folder) == found
    assert results.each_once(older, runs_folder) == older
    with pytest.raises(ValueError, match="one run of each configuration, got 2 of adaptive_alie_seed0"):
        results.each_once(older + older, runs_folder)
    with pytest.raises(ValueError, match="one run of each configuration, got 2"):
        results.each_once(found + found, runs_folder)


def test_a_run_is_todays_if_its_code_and_its_entries_are():
    config = GRID[0].config
    now = fingerprint.origin_of(config)
    todays = replace(GRID[0], code=now.code, entries=now.entries)
    assert results.is_todays(todays)
    for other in ({"code": "another"}, {"entries": "another"}, {"entries": ""}):
        assert not results.is_todays(replace(todays, **other))


def test_a_run_of_the_specification_belongs_to_the_table_of_the_others():
    """Its numbers are the same but for rounding, as are those of a GPU."""
    for same in ({"plain": True}, {"gpu": True}, {"device": 1}):
        other = with_options(GRID[0], **same)
        assert results.identity(other) == results.identity(GRID[0])
        assert len(results.groups([GRID[0], other])) == 1


def test_runs_of_other_options_are_a_group_of_their_own():
    others = [with_options(run, risk="batch") for run in GRID]
    groups = results.groups(GRID + others)
    assert [len(group) for group in groups] == [len(GRID)] * 2
    assert results.describe_group(groups[1], GRID + others).endswith("epochs 2, risk batch")
    assert results.differing(groups[0], GRID + others) == {"risk": "local"}


def test_runs_of_other_data_never_share_a_table():
    others = [replace(run, data="0ther") for run in GRID]
    unknown = [replace(run, data="") for run in GRID]
    groups = results.groups(GRID + others + unknown)
    assert [len(group) for group in groups] == [len(GRID)] * 3
    said = [results.describe_group(group, GRID + others + unknown) for group in groups]
    assert [text.rpartition(", ")[2] for text in said] == ["data da7a", "data 0ther", "data not known"]
    assert "data" not in results.describe_group(unknown, unknown)


def test_of_two_places_the_later_counts_but_for_other_data(tmp_path):
    def csv_of(name, **facts):
        run = replace(result("krum", "foe", 0, facts.pop("worst")), **facts)
        (tmp_path / name).write_text(as_csv([run]), encoding="utf-8")
        return tmp_path / name

    unknown, one = csv_of("unknown.csv", worst=0.1, data=""), csv_of("one.csv", worst=0.2, data="one")
    again, two = (
        csv_of("again.csv", worst=0.3, data="one", code="new"),
        csv_of("two.csv", worst=0.4, data="two"),
    )

    def worst(*paths):
        return [run.last("worst_own") for run in results.read_all(paths)]

    assert worst(one, again) == [0.3]
    assert worst(again, one) == [0.2]
    assert worst(unknown, one) == [0.2]
    assert worst(one, two) == [0.2, 0.4]


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ([], 1),
        ([{"code": "0ther"}], 2),
        ([{"code": "0ther"}, {"code": "third"}], 3),
        ([{"entries": "0ther"}], 2),
        ([{}, {}, {"rule": "median", "entries": "0ther"}], 1),
        ([{"partition": "iid", "entries": "0ther"}], 1),
        ([{}, {"rule": "median", "code": "0ther"}], 2),
        ([{"rule": "choco", "code": "0ther"}], 1),
        ([{"rule": "choco", "code": "0ther"}, {"rule": "sgp", "code": "third"}], 2),
        ([{"attack": "foe", "code": "0ther"}], 2),
        ([{"attack": "echo", "code": "0ther"}], 1),
        ([{"attack": "echo", "code": "0ther"}, {"attack": "echo", "code": "third"}], 2),
    ],
)
def test_versions_of_the_code_are_counted(change, count):
    """Other seeds, or other rules; systems, and attacks of other papers, are computed by other modules."""
    runs = [GRID[0]]
    for seed, facts in enumerate(change, start=1):
        own = {name: value for name, value in facts.items() if name in ("code", "entries")}
        options = {name: value for name, value in facts.items() if name not in own}
        runs.append(replace(with_options(GRID[0], seed=seed, **options), **own))
    assert results.versions(runs) == count
    assert results.describe_versions(runs) == [f"computed by {count} versions of the code"] * (count > 1)


def test_one_version_has_computed_what_this_process_would():
    """Though attacks that reach other modules have digests of their own."""
    runs = [result("krum", attack, 0, 0.5) for attack in ATTACKS]
    origins = [fingerprint.origin_of(run.config) for run in runs]
    assert len({origin.code for origin in origins}) > 1
    now = [replace(run, code=o.code, entries=o.entries) for run, o in zip(runs, origins)]
    assert results.versions(now) == 1


def test_a_table_by_several_versions_of_the_code_says_so(tmp_path, capsys):
    (tmp_path / "runs.csv").write_text(as_csv([GRID[0], replace(GRID[1], code="another")]), encoding="utf-8")
    assert report.main([str(tmp_path / "runs.csv"), "--format", "latex"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "% computed by 2 versions of the code"


def test_runs_that_must_agree_in_something_are_refused_if_they_do_not():
    results.need_same(GRID, results.TOGETHER)
    for other, name in ((with_options(GRID[0], lr=0.5), "lr"), (replace(GRID[0], data="x"), "data")):
        with pytest.raises(ValueError, match=f"needs runs with the same {name}, got "):
            results.need_same([*GRID, other], results.TOGETHER)


def test_a_description_says_under_which_protocol_the_runs_are():
    def group(**options):
        return [with_options(GRID[0], **options)]

    used = as_released("spambase")
    paper, some, whole = group(), group(released=("adam",)), group(**used)
    assert results.describe_group(paper, paper).endswith("epochs 2")
    assert results.describe_group(some, some).endswith("epochs 2, released adam")
    assert results.describe_group(whole, whole).endswith("epochs 2, protocol released")
    alone = group(**used | {"released": ()})
    assert results.describe_group(alone, alone + whole).endswith("epochs 2, protocol paper")
    typed = group(**used | {"optimizer": "sgd", "lr": 0.1})
    assert results.describe_group(typed, typed).endswith(
        "epochs 2, protocol released but optimizer sgd, lr 0.1"
    )
    as_many = group(**used | {"released": (*used["released"][:-1], "label-pairs")})
    assert results.describe_group(as_many, as_many).endswith(" label-shards label-pairs")
