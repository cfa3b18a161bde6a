"""Wrong command lines: each ends with status 2 and one line that says why, before anything is written."""

import shlex
import sys

import pytest
from platforms import WINDOWS, make_pipe

from refimpl.experiments import cli, tasks

NINES = "9" * 200
SOME = "--rules local --attacks foe "  # few runs, so that what has to be built is built soon

# What the line must say, and the command lines that must say so. {} are names in the folder `place` below.
SPAMBASE = {
    # Names
    "--rules: unknown name 'nope'": ["--rules nope", "--rules krum nope", "--rules adaptive --rules nope"],
    "--rules: unknown name ''": ["--rules ''", "--rules="],
    "--rules: unknown name 'Krum', did you mean krum": ["--rules Krum"],
    "--rules: unknown name 'adaptve', did you mean adaptive?": ["--rules adaptve"],
    "--rules: unknown name 'xyzzy', choose from adaptive, inverse-risk, ": ["--rules xyzzy"],
    "--rules: unknown name 'adaptive,krum'": ["--rules adaptive,krum"],
    r"--rules: unknown name 'kr\num'": ["--rules 'kr\num'"],
    "--rules: expected at least one argument": ["--rules", "--rules --attacks foe"],
    "--attacks: unknown name 'sign_flip'": ["--attacks sign_flip"],
    "--attacks: unknown name 'all'": ["--attacks all"],
    "--attacks: unknown name 'ALIE'": ["--attacks alie ALIE"],
    "--attacks: expected at least one argument": ["--attacks", "--attacks --epochs 1"],
    "--risk: unknown name 'lokal'": ["--risk lokal"],
    "--risk: unknown name 'None'": ["--risk None"],
    "--risk: expected one argument": ["--risk", "--risk --plain"],
    "--optimizer: unknown name 'sdg'": ["--optimizer sdg"],
    "--optimizer: unknown name 'ADAM'": ["--optimizer ADAM"],
    "--optimizer: expected one argument": ["--optimizer"],
    "--partition: unknown name 'dirichlet'": ["--partition dirichlet"],
    "--partition: expected one argument": ["--partition"],
    "--features: unknown name 'standardized'": ["--features standardized"],
    "--features: expected one argument": ["--features"],
    "--dtype: unknown name 'float16'": ["--dtype float16"],
    "--dtype: unknown name 'int8'": ["--dtype int8"],
    "--dtype: expected one argument": ["--dtype"],
    "--seeds: not allowed with argument --repeats": ["--repeats 5 --seeds 7"],
    # Options that there are not
    "unrecognized arguments: --no-such-option": ["--no-such-option"],
    "unrecognized arguments: --dataset digits": ["--dataset digits"],
    "unrecognized arguments: results": ["results", "--plain results"],
    "unrecognized arguments: -x": ["-x", "-x --epochs 1"],
    "unrecognized arguments: -1": ["-1"],
    "unrecognized arguments: 2": ["--epochs 1 2"],
    "unrecognized arguments: two lines": ["'two\nlines'", "'two\r\n\r\n  lines'", "'two\u2028lines'"],
    "ambiguous option: --d could match": ["--d", "--d 1"],
    "ambiguous option: --a could match": ["--a alie"],
    "--gpu: ignored explicit argument '0'": ["--gpu=0"],
    "--plain: ignored explicit argument 'yes'": ["--plain=yes"],
    # Whole numbers
    "--seeds: needs a whole number, 0 or more, got -1": ["--seeds -1", "--seeds 0 -1", "--seeds=-1"],
    "--seeds: needs a whole number, 0 or more, got 0.5": ["--seeds 0.5"],
    "--seeds: needs a whole number, 0 or more, got None": ["--seeds None"],
    "--seeds: needs a whole number, 0 or more, got 1,2": ["--seeds 1,2"],
    "--seeds: needs a whole number, 0 or more, got two lines": ["--seeds 'two\nlines'"],
    "--seeds: needs a whole number, up to 9223372036854775807, got 9223372036854775808": [
        "--seeds 9223372036854775808"
    ],
    f"--seeds: needs a whole number, up to 9223372036854775807, got {NINES[:40]}...": [f"--seeds {NINES}"],
    f"--seeds: needs a whole number, 0 or more, got {NINES[:40]}...": [f"--seeds {30 * NINES}"],  # no int
    "--seeds: expected at least one argument": ["--seeds", "--seeds --plain"],
    "--epochs: needs a whole number, 1 or more, got 0": ["--epochs 0", "--epochs 5 --epochs 0"],
    "--epochs: needs a whole number, 1 or more, got -5": ["--epochs -5", "--epochs=-5"],
    "--epochs: needs a whole number, 1 or more, got ten": ["--epochs ten"],
    "--epochs: needs a whole number, 1 or more, got 1.0": ["--epochs 1.0"],
    "--epochs: needs a whole number, 1 or more, got 1e3": ["--epochs 1e3"],
    "--epochs: needs a whole number, 1 or more, got 1e310": ["--epochs 1e310"],
    "--epochs: needs a whole number, 1 or more, got inf": ["--epochs inf"],
    "--epochs: needs a whole number, 1 or more, got nan": ["--epochs nan"],
    "--epochs: needs a whole number, 1 or more, got 0x10": ["--epochs 0x10"],
    "--epochs: needs a whole number, 1 or more, got 1_0": ["--epochs 1_0"],
    "--epochs: needs a whole number, 1 or more, got nothing": ["--epochs ''", "--epochs=", "--epochs ' '"],
    "--epochs: needs a whole number, 1 or more, got '5'": ["--epochs \"'5'\""],
    "--epochs: needs a whole number, up to 1000000000, got 1000000001": ["--epochs 1000000001"],
    f"--epochs: needs a whole number, up to 1000000000, got {NINES[:40]}...": [f"--epochs {NINES}"],
    "--epochs: expected one argument": ["--epochs", "--epochs --plain"],
    "--workers: needs a whole number, 2 or more, got 1": ["--workers 1"],
    "--workers: needs a whole number, 2 or more, got 0": ["--workers 0"],
    "--workers: needs a whole number, 2 or more, got -10": ["--workers -10"],
    "--workers: needs a whole number, 2 or more, got 10.5": ["--workers 10.5"],
    "--workers: needs a whole number, 2 or more, got many": ["--workers many"],
    f"--workers: needs a whole number, up to 1000000000, got 1{'0' * 30}": [f"--workers 1{'0' * 30}"],
    "--workers: expected one argument": ["--workers"],
    "--attackers: needs a whole number, 0 or more, got -1": ["--attackers -1"],
    "--attackers: needs a whole number, 0 or more, got 30%": ["--attackers 30%"],
    "--attackers: needs a whole number, 0 or more, got 0.3": ["--attackers 0.3"],
    f"--attackers: needs a whole number, up to 1000000000, got {NINES[:40]}...": [f"--attackers {NINES}"],
    "--attackers: expected one argument": ["--attackers"],
    "--batch-size: needs a whole number, 1 or more, got 0": ["--batch-size 0"],
    "--batch-size: needs a whole number, 1 or more, got -20": ["--batch-size -20"],
    "--batch-size: needs a whole number, 1 or more, got all": ["--batch-size all"],
    "--batch-size: needs a whole number, up to 1000000000, got 10000000000": ["--batch-size 10000000000"],
    "--batch-size: expected one argument": ["--batch-size"],
    "--jobs: needs a whole number, 1 or more, got 0": ["--jobs 0"],
    "--jobs: needs a whole number, 1 or more, got -1": ["--jobs -1"],
    "--jobs: needs a whole number, 1 or more, got auto": ["--jobs auto"],
    f"--jobs: needs a whole number, up to 1000000000, got {NINES[:40]}...": [f"--jobs {NINES}"],
    "--threads: needs a whole number, 1 or more, got 0": ["--threads 0"],
    "--threads: needs a whole number, 1 or more, got -2": ["--threads -2"],
    "--threads: needs a whole number, up to 1000, got 1001": ["--threads 1001"],
    f"--threads: needs a whole number, up to 1000, got 1{'0' * 25}": [f"--threads 1{'0' * 25}"],
    "--device: needs a whole number, 0 or more, got -1": ["--gpu --device -1"],
    "--device: needs a whole number, 0 or more, got first": ["--gpu --device first"],
    "--device chooses a GPU and needs --gpu": ["--device 1", "--device 7 --plain"],
    # Addresses: what Dask's client does not take, it leaves with a traceback when the command has ended
    **{
        f"--cluster: needs host:port of a Dask scheduler, got {text or 'nothing'}": [f"--cluster '{text}'"]
        for text in ("", ":", "here", "here:", ":8786", "here:port", "here:65536", "tls://here:8786", "ucx://")
    },
    # Numbers
    "--lr: needs a number above 0, got 0": ["--lr 0"],
    "--lr: needs a number above 0, got 0.0": ["--lr 0.0"],
    "--lr: needs a number above 0, got -0": ["--lr -0"],
    "--lr: needs a number above 0, got -1": ["--lr -1"],
    "--lr: needs a number above 0, got abc": ["--lr abc"],
    "--lr: needs a number above 0, got inf": ["--lr inf"],
    "--lr: needs a number above 0, got -inf": ["--lr=-inf"],
    "--lr: needs a number above 0, got 1e999": ["--lr 1e999"],
    "--lr: needs a number above 0, got nan": ["--lr nan"],
    "--lr: needs a number above 0, got 0,01": ["--lr 0,01"],
    "--lr: needs a number above 0, got 1e-999": ["--lr 1e-999"],
    "--lr: needs a number above 0, got 0_1": ["--lr 0_1"],
    "--lr: needs a number above 0, got nothing": ["--lr ''"],
    f"--lr: needs a number above 0, got {NINES[:40]}...": [f"--lr {NINES}{NINES}"],
    "--lr: expected one argument": ["--lr"],
    "--l2: needs a number of 0 or more, got -0.1": ["--l2 -0.1"],
    "--l2: needs a number of 0 or more, got nan": ["--l2 nan"],
    "--l2: needs a number of 0 or more, got inf": ["--l2 inf"],
    "--l2: needs a number of 0 or more, got little": ["--l2 little"],
    "--loss: needs a probability, 0 to 1, got 1.1": ["--loss 1.1"],
    "--loss: needs a probability, 0 to 1, got -0.1": ["--loss -0.1", "--loss=-0.1"],
    "--late: needs a probability, 0 to 1, got nan": ["--late nan"],
    "--late: needs a probability, 0 to 1, got 10%": ["--late 10%"],
    "--late: expected one argument": ["--late"],
    "--crash: needs a whole number, 0 or more, got -1": ["--crash -1"],
    "--crash: needs a whole number, 0 or more, got 0.5": ["--crash 0.5"],
    "needs as many normal workers as crash, got 8 for 7": [f"{SOME} --crash 8"],
    "a worker that crashes and comes back needs 2 rounds or more, got 1": [
        f"{SOME} --crash 1 --epochs 1 --batch-size 1000"
    ],
    "the released code knows no loss, late or crash": [
        f"{SOME} --protocol released --loss 0.1",
        f"{SOME} --released adam --crash 1",
    ],
    "system sgp knows no loss, late or crash": ["--rules sgp --loss 0.1", "--rules adaptive sgp --late 1"],
    "--released: unknown name 'nonsense'": ["--released nonsense", "--released adam nonsense"],
    "--released: expected at least one argument": ["--released"],
    "--released: a difference of the released code is on or off, got sigmoid-outputs twice": [
        "--released sigmoid-outputs adam sigmoid-outputs"
    ],
    "--released: tensor-signals and small-tensor-signals contradict each other in arbitrary": [
        "--released tensor-signals small-tensor-signals"
    ],
    "--released: label-pairs and label-shards contradict each other in partition": [
        "--released adam label-pairs label-shards"
    ],
    "--protocol: unknown name 'theirs'": ["--protocol theirs"],
    "--figure: unknown name '1'": ["--figure 1"],
    "--repeats: needs a whole number, 1 or more, got 0": ["--repeats 0"],
    # Options that do not go together, or not with the data
    "--protocol released has all differences": ["--protocol released --released adam"],
    "system sgp knows no smoothed-risk": [
        "--rules sgp --released smoothed-risk",
        "--rules sgp --released smoothed-risk adam",
    ],
    "at least one worker must be normal, got 10 attackers of 10 workers": [
        "--attackers 10",
        "--attackers 10 --plain",
    ],
    "at least one worker must be normal, got 3 attackers of 2 workers": ["--workers 2"],
    "at least one worker must be normal, got 1000000000 attackers of 10": [f"{SOME} --attackers 1000000000"],
    "krum needs n >= 2f + 3 models, got n=10, f=4": ["--attackers 4"],
    "worker 0, with 2 neighbours: krum": ["--graph ring --rules krum", "--graph ring --rules local krum"],
    "trimmed_mean needs n >= 2f + 1 models, got n=10, f=5": ["--attackers 5 --rules trimmed-mean"],
    "trimmed_mean needs n >= 2f + 1 models, got n=3, f=3": ["--graph ring --rules trimmed-mean"],
    "the partition deals rows by subject, but the data have none": ["--partition by-subject"],
    "label-pairs needs 10 workers and the labels 0 to 9, got 10 and [0, 1]": [
        f"{SOME} --partition label-pairs"
    ],
    "nonuniform needs 20 rows of each class per worker": ["--workers 200", f"{SOME} --workers 4601"],
    "two-labels needs more rows": [f"{SOME} --partition two-labels --workers 4601"],
    "shards needs at least one row per shard": [f"{SOME} --partition shards --workers 4601"],
    "needs a row to train on and one to test on": [f"{SOME} --partition iid --workers 4601"],
    "got 4601 rows for 4602 workers": [
        f"{SOME} --workers 4602 --partition {name}" for name in ("iid", "shards", "nonuniform", "two-labels")
    ],
    "got 4601 rows for 1000000000 workers": [
        f"{SOME} --workers 1000000000",
        f"{SOME} --workers 1000000000 --partition iid",
    ],
    "rows to train on in all, got a batch of 4601": [f"{SOME} --batch-size 4601"],
    "rows to train on in all, got a batch of 10000000": [
        f"{SOME} --batch-size 10000000",
        "--batch-size 10000000",
    ],
    # Graphs
    "unknown graph 'moebius'": [f"{SOME} --graph moebius"],
    "unknown graph ''": [f"{SOME} --graph ''", f"{SOME} --graph="],
    "unknown graph 'Ring'": [f"{SOME} --graph Ring"],
    "unknown graph 'ring:3'": [f"{SOME} --graph ring:3"],
    "unknown graph 'complete:'": [f"{SOME} --graph complete:"],
    r"unknown graph 'two\nlines'": [f"{SOME} --graph 'two\nlines'"],
    "unknown graph '.'": [f"{SOME} --graph ."],
    "unknown graph '/dev/zero'": [f"{SOME} --graph /dev/zero"],
    "no path leads from worker 0": [
        f"{SOME} --graph erdos-renyi:0",
        f"{SOME} --graph erdos-renyi:1e-3",
        f"{SOME} --graph regular:0",
        f"{SOME} --graph {{alone}}",
    ],
    "needs a probability 0 <= p <= 1, got p=1.5": [f"{SOME} --graph erdos-renyi:1.5"],
    "needs a probability 0 <= p <= 1, got p=-0.1": [f"{SOME} --graph erdos-renyi:-0.1"],
    "needs a probability 0 <= p <= 1, got p=nan": [f"{SOME} --graph erdos-renyi:nan"],
    "graph erdos-renyi:P needs a number, got ''": [f"{SOME} --graph erdos-renyi:"],
    "graph regular:DEGREE needs a number, got '0_4'": [f"{SOME} --graph regular:0_4"],
    "schedule exponential:PEERS needs a whole number, 1 to 9, got 1e+09": [
        "--rules sgp --graph-schedule exponential:1e9"
    ],
    "d-psgd: needs a schedule of at most 100000 rounds to look at, got 19000000": [
        "--rules d-psgd --attacks none --graph-schedule thinned:0.5 --epochs 1000000"
    ],
    "graph erdos-renyi:P needs a number, got 'half'": [f"{SOME} --graph erdos-renyi:half"],
    "random_regular needs a whole 0 <= degree < n": [
        f"{SOME} --graph regular:{degree}" for degree in ("10", "-2", "2.5", "inf", "nan", "1e30")
    ],
    "n * degree even, got n=9, degree=3": [f"{SOME} --graph regular:3 --workers 9"],
    "names worker 12, but the 10 workers are 0 to 9": [f"{SOME} --graph {{edges}}"],
    "names worker -1, but": [f"{SOME} --graph {{minus}}"],
    "words, line 1: needs two worker numbers, got 'who hears whom'": [f"{SOME} --graph {{words}}"],
    "bytes: needs text, one edge per line": [f"{SOME} --graph {{bytes}}"],
    "expected one argument": ["--graph", "--graph --plain", "--out", "--data-dir"],
    # Folders
    "--out: needs the name of a folder, got ''": ["--out ''", "--out="],
    r"--out: needs the name of a folder, got 'two\nlines'": ["--out 'two\nlines'"],
    r"--out: needs the name of a folder, got '\udcff'": ["--out \udcff"],  # a byte that is no text
    "--out needs a folder that can be written to, got {file}: File exists": [f"{SOME} --out {{file}}"],
    "{file}/below: Not a directory": [f"{SOME} --out {{file}}/below"],
    "File name too long": [f"{SOME} --out {2 * NINES}", f"{SOME} --data-dir {2 * NINES}"],
    "--data-dir: needs the name of a folder, got ''": ["--data-dir ''", "--data-dir="],
    r"--data-dir: needs the name of a folder, got '\x1b[31m'": ["--data-dir '\x1b[31m'"],
    "spambase.data: No such file or directory": [
        f"{SOME} --data-dir {{empty}}",
        f"{SOME} --data-dir nowhere",
    ],
    "spambase.data: Not a directory": [f"{SOME} --data-dir {{file}}"],
    "is not the published Spambase": [f"{SOME} --data-dir {{corrupt}}"],
    "spambase.data needs to be a regular file": [
        f"{SOME} --data-dir {{pipe}}",
        f"{SOME} --data-dir {{folder}}",
    ],
}
OTHERS = {
    "har": {
        "HAR needs": ["--data-dir {empty}", "--data-dir nowhere", "--data-dir {pipe}", "--data-dir /dev/zero"],
        "is not the published HAR zip": ["--data-dir {file}"],
        "har.npz cannot be unpacked": ["--data-dir {har}"],
        "the data need a folder": ["--workers 30"],  # of a user that there is not
    },
    "mnist": {
        "--dataset: unknown name 'cifar'": ["--dataset cifar"],
        "--dataset: expected one argument": ["--dataset"],
        "MNIST needs train-images-idx3-ubyte or": ["--data-dir {empty}", "--data-dir {pipe} --rules local"],
        "digits come with scikit-learn and need no data folder": ["--dataset digits --data-dir {empty}"],
        "label-pairs needs 10 workers": ["--dataset digits --partition label-pairs --workers 11"],
        "two-labels needs 2 to 4 labels for 2 workers": [f"--dataset digits {SOME} --workers 2 --attackers 1"],
        "the data need a folder": ["--rules local"],
    },
}
LINES = [
    (task, line, message)
    for task, table in {"spambase": SPAMBASE, **OTHERS}.items()
    for message, lines in table.items()
    for line in lines
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Files and folders that are not what they should be."""
    place = tmp_path_factory.mktemp("place")
    for name in ("empty", "corrupt", "folder", "pipe", "har"):
        (place / name).mkdir()
    (place / "corrupt" / "spambase.data").write_text("1,2,3\n", encoding="utf-8")
    (place / "folder" / "spambase.data").mkdir()
    for name in ("spambase.data", "har.npz", "train-images-idx3-ubyte"):
        if not WINDOWS:
            make_pipe(place / "pipe" / name)
    (place / "har" / "har.npz").write_text("no arrays", encoding="utf-8")
    (place / "file").write_text("precious", encoding="utf-8")
    (place / "edges").write_text("0 1\n0 12\n", encoding="utf-8")
    (place / "minus").write_text("0 1\n0 -1\n", encoding="utf-8")
    (place / "words").write_text("who hears whom\n", encoding="utf-8")
    (place / "alone").write_text("0 1  # and nobody else\n", encoding="utf-8")
    (place / "bytes").write_bytes(b"0 1\n\xff\xfe\n")
    return place


@pytest.mark.parametrize(("task", "line", "message"), LINES, ids=[f"{task} {line}" for task, line, _ in LINES])
def test_a_wrong_command_line_is_one_line_status_2_and_nothing_written(
    task, line, message, place, tmp_path, capsys, monkeypatch
):
    if WINDOWS and ("{pipe}" in line or "{file}" in line or message == "the data need a folder"):
        pytest.skip("Windows has no such files, says it in other words, or guesses a folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["spambase.py"])
    monkeypatch.setenv("REFIMPL_DATA", "~nosuchuser/data")
    names = {path.name: path for path in place.iterdir()}
    argv = [word.format(**names) for word in shlex.split(line)]
    with pytest.raises(SystemExit) as caught:
        cli.main(task, argv)
    said = capsys.readouterr()
    assert caught.value.code == 2
    assert said.out == ""
    assert message.format(**names) in said.err
    assert said.err.startswith("spambase.py: ")
    assert len(said.err.splitlines()) == 1
    assert len(said.err) < 1000
    assert list(tmp_path.iterdir()) == []
    assert (place / "file").read_text(encoding="utf-8") == "precious"


def test_there_are_many_of_them():
    assert len(set(LINES)) == len(LINES) >= 150


def test_too_little_memory_is_one_line(tmp_path, capsys, monkeypatch):
    def build(*_):
        raise MemoryError("Unable to allocate 62. GiB")

    monkeypatch.setattr(tasks, "build", build)
    with pytest.raises(SystemExit) as caught:
        cli.main("spambase", ["--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(": Unable to allocate 62. GiB\n")
    assert not (tmp_path / "out").exists()
