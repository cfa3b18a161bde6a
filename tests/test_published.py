"""studies/published.py, on a small problem."""

import csv
import importlib
import json
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate, graphs
from refimpl.experiments import fingerprint
from refimpl.related import metropolis_weights, rules


@pytest.fixture
def published(monkeypatch):
    """The script, on pictures of ten pixels, of which the bright one is the label."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "studies"))
    module = importlib.import_module("published")
    monkeypatch.setattr(module, "load", lambda data_dir, symmetric: small(module))
    return module


def small(published):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 1200)
    X = (rng.random((1200, 10)) / 4 + np.eye(10)[y]).astype("float32")
    rows = np.concatenate([X, np.ones((1200, 1), "float32")], axis=1)
    return published.Data(rows[:1000], y[:1000], rows[1000:], y[1000:])


@pytest.fixture
def ios(published):
    return importlib.import_module("published_ios")


@pytest.mark.parametrize("partition", ["iid", "label-separated"])
def test_published_tables_are_computed(published, partition, capsys, tmp_path, monkeypatch):
    command = ["--rounds", "2", "--partition", partition, "--out", str(tmp_path)]
    assert published.main(command) == 0
    said = capsys.readouterr().out.splitlines()
    cells = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()]
    assert max(map(len, said)) <= 80
    assert len(cells) == len(said) - 3 * 2 == (1 + 8 * 6) + 3 + 4 * 2
    assert all(0 <= cell["ours"] <= 100 for cell in cells)
    first = next(cell for cell in cells if (cell["row"], cell["column"]) == ("IOS", "alie"))
    assert first["theirs"] == {"iid": 91.68, "label-separated": 86.61}[partition]
    assert (first["rounds"], first["of"]) == (2, 50_000)
    monkeypatch.setattr(published, "write", None)  # is not called again
    assert published.main([*command, "ios"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again == said[: len(again)]


@pytest.mark.parametrize("table", ["ios", "peng"])
def test_a_number_of_other_code_or_data_is_not_shown_as_ours(published, table, monkeypatch, tmp_path):
    """An edit in the file of the table, in what it imports, in the package, and of the data."""
    common, module = (importlib.import_module(f"published_{name}") for name in ("common", table))
    sources, accuracy = dict(fingerprint.SOURCES), common.accuracy
    monkeypatch.setattr(fingerprint, "SOURCES", sources)
    monkeypatch.setattr(fingerprint, "code_digest", fingerprint.code_digest.__wrapped__)
    other = small(published)._replace(y=np.ones(1000, int))
    edits = [
        lambda patch: None,
        lambda patch: patch.setattr(module, f"{table}_cell", lambda *args: [50.0]),
        lambda patch: patch.setattr(module, "accuracy", lambda *args: accuracy(*args)),
        lambda patch: patch.setitem(sources, "refimpl.fast.networks", "edited = True"),
        lambda patch: patch.setattr(published, "load", lambda *args: other),
    ]
    command = [table, "--rounds", "1", "--out", str(tmp_path), "--columns", "none", "--rows"]
    kept = []
    for edit in [*edits, edits[0]]:
        with monkeypatch.context() as patch:
            edit(patch)
            assert published.main([*command, published.PUBLISHED[table].rows[0]]) == 0
        kept.append(len(list(tmp_path.iterdir())))
    assert kept == [1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize("table", ["ios", "peng", "wu"])
def test_there_is_nothing_in_a_table_that_cannot_be_compared(published, table):
    assert fingerprint.origin(published.PUBLISHED[table].cells).known


def test_a_csv_file_from_before_code_was_kept_is_added_to(published, tmp_path, capsys):
    some = ["peng", "--rounds", "1", "--rows", "DPSGD", "--csv", str(tmp_path / "published.csv")]
    assert published.main(some) == 0
    rows = list(csv.DictReader((tmp_path / "published.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows[0].pop("code")) == 8
    (tmp_path / "published.csv").write_text(published.csv_text(rows), encoding="utf-8")
    assert published.main([*some[:4], "BRIDGE", *some[5:]]) == 0
    rows = list(csv.DictReader((tmp_path / "published.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["row"], len(row["code"])) for row in rows] == [("DPSGD", 0), ("BRIDGE", 8)]


def test_what_is_kept_can_be_shown_alone(published, capsys, tmp_path):
    some = ["ios", "--rounds", "1", "--out", str(tmp_path / "out"), "--rows", "IOS", "SCC", "--columns", "sign"]
    assert published.main(some) == 0
    said = capsys.readouterr().out
    table = tmp_path / "published.csv"
    assert published.main([*some[:5], "--kept", "--csv", str(table)]) == 0
    assert capsys.readouterr().out == said
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [(row["row"], row["theirs"], row["of"]) for row in rows] == [
        ("SCC", "32.56", "50000"),
        ("IOS", "91.66", "50000"),
    ]
    assert published.main([str(table)]) == 0
    assert capsys.readouterr().out == said
    for _ in range(2):
        more = ["ios", "--rounds", "1", "--rows", "Krum", "IOS", "--columns", "sign", "--csv", str(table)]
        assert published.main(more) == 0
        rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
        assert [row["row"] for row in rows] == ["Krum", "SCC", "IOS"]  # added in their places
    assert published.main([*more, "--seed", "1"]) == 0
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [row["seed"] for row in rows] == ["0", "0", "0", "1", "1"]  # below a heading of their own
    capsys.readouterr()
    assert published.main(["peng", "--out", str(tmp_path / "out"), "--kept"]) == 0
    assert "no numbers: without --kept they are computed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("--kept", "--kept needs --out"),
        ("iso", "unknown table 'iso', choose from ios, peng, wu"),
        ("nothere.csv", "unknown table 'nothere.csv', choose from ios, peng, wu, or a CSV file"),
        ("ios --rows mean", "ios has no 'mean', choose from no communication, MH mean, median"),
        ("peng wu --columns alie", "peng, wu has no 'alie', choose from none, none, gaussian"),
        ("ios --rounds 0", "needs a whole number, 1 or more, got 0"),
        ("peng --partition label-separated", "--partition label-separated is for ios, got peng"),
    ],
)
def test_a_wrong_command_is_one_line(published, capsys, command, message):
    with pytest.raises(SystemExit) as caught:
        published.main(command.split())
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_missing_data_are_one_line(published, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(published, "load", importlib.import_module("published_common").load)
    with pytest.raises(SystemExit, match="2"):
        published.main(["wu", "--data-dir", str(tmp_path)])
    assert "MNIST needs train-images-idx3-ubyte or" in capsys.readouterr().err.splitlines()[-1]


def graph_of(ios, attack):
    graph = graphs.from_edges(12, ios.IOS_EDGES)
    if attack == "none":
        graph[[6, 7]] = graph[:, [6, 7]] = False
    return graph


@pytest.mark.parametrize("attack", ["none", "sign"])
def test_everyone_hears_its_neighbourhood_in_the_order_of_the_senders(ios, attack):
    net, graph = ios.ios_network(attack), graph_of(ios, attack)
    assert net.honest.tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    assert_array_equal(net.hears[:, net.lies].sum(axis=0), 1)  # a lie is for one worker
    assert_array_equal(net.near, (graph & ~np.eye(12, dtype=bool))[np.ix_(net.honest, net.honest)])
    for i, k in enumerate(net.honest):
        N_k = np.flatnonzero(graph[k])
        assert_array_equal(np.isin(np.flatnonzero(net.hears[i]), net.lies), np.isin(N_k, [6, 7]))
        assert_allclose(net.weights[i][net.hears[i]], metropolis_weights(graph)[k, N_k])
        assert net.hears[i][: net.own[i]].sum() == (N_k < k).sum()
        assert net.f[i] == np.isin(N_k, [6, 7]).sum()
    assert not net.weights[~net.hears].any()


def messages(ios, attack, spread=1.0):
    """Their network, what honest workers send (h, d), all messages (m, d), and the attackers' generator."""
    net, rng = ios.ios_network(attack), np.random.default_rng(1)
    H = (5 + spread * rng.normal(size=(10, 40))).astype("float32")
    sent = np.empty((net.hears.shape[1], 40), "float32")
    sent[net.own], sent[net.lies] = H, ios.IOS_ATTACKS[attack](net)(H, np.random.default_rng(2))
    return net, H, sent, np.random.default_rng(2)


def told(attack, own, near, c_own, c_near, c_lies, rng):
    """What worker k's attackers tell it, as their code has it: from what k and its honest neighbours send."""
    f, n = len(c_lies), len(near) + len(c_lies)
    if attack == "gaussian":
        return near.mean(axis=0) + 30 * rng.normal(size=(f, len(own)))
    if attack == "sign":
        return -(near.sum(axis=0) + own) / (len(near) + 1)
    if attack == "isolation":
        return (own - c_own * own - c_near @ near) / sum(c_lies)
    if attack == "duplicate":
        return near[rng.integers(len(near))]
    z = NormalDist().inv_cdf((n - ((n + 1) // 2 - f)) / n)
    return near.mean(axis=0) + z * near.std(axis=0, ddof=1)


@pytest.mark.parametrize("attack", ["gaussian", "sign", "isolation", "duplicate", "alie"])
def test_attackers_tell_each_worker_what_their_code_has(ios, attack):
    net, H, sent, rng = messages(ios, attack)
    for i, near in enumerate(net.near):
        lies = net.lies[net.victims == i]
        c = net.weights[i]
        expected = told(attack, H[i], H[near], c[net.own[i]], c[net.own][near], c[lies], rng)
        assert_allclose(sent[lies], np.broadcast_to(expected, sent[lies].shape), rtol=1e-4, atol=1e-4)


PLAIN = {
    "no communication": lambda M, own, c, f: M[own],
    "MH mean": lambda M, own, c, f: c @ M,
    "median": lambda M, own, c, f: np.sort(M, axis=0)[(len(M) - 1) // 2],  # the lower one, as in torch
    "geometric median": lambda M, own, c, f: rules.geometric_median(M),
    "Krum": lambda M, own, c, f: aggregate.krum(M, f),
    "trimmed mean": lambda M, own, c, f: rules.own_trimmed_mean(M, own, f),
    "SCC": lambda M, own, c, f: rules.clipped_gossip(M, own, c, 0.3),
    "IOS": lambda M, own, c, f: rules.iterative_outlier_scissor(M, own, c, f),
}


@pytest.mark.parametrize("spread", [1, 0.02])  # with 0.02, some differences are not clipped
@pytest.mark.parametrize("attack", ["none", "gaussian", "sign", "isolation", "duplicate", "alie"])
@pytest.mark.parametrize("rule", list(PLAIN))
def test_each_worker_applies_the_rule_to_what_it_hears(ios, rule, attack, spread):
    net, _, sent, _ = messages(ios, attack, spread)
    made = ios.aggregated(net, sent, rule, 0.3)
    for i, hears in enumerate(net.hears):
        M, own = sent[hears].astype(float), int(hears[: net.own[i]].sum())
        assert_allclose(
            made[i], PLAIN[rule](M, own, net.weights[i][hears], int(net.f[i])), rtol=2e-5, atol=2e-5
        )


def test_signs_are_summed_up(ios):
    M = np.array([[1.0, 2, 3], [0, 2, 4], [0, 3, 3]], "float32")
    assert ios.signs(M, 0).tolist() == [2, -1, -1]


@pytest.mark.parametrize("steps", [0, 1, 5, 80])
@pytest.mark.parametrize("bad", [7.0, 1e3])
def test_the_geometric_median_by_products_is_the_plain_one(published, steps, bad):
    common = importlib.import_module("published_common")
    W = np.random.default_rng(steps).normal(size=(7, 5)) + 100
    W[2] = bad
    for n in (4, 7):
        for w, rtol in ((W, 1e-9), (W.astype("float32"), 1e-5)):
            made = common.geometric_median(w[:n], steps)
            assert made.dtype == w.dtype
            assert_allclose(made, rules.geometric_median(W[:n], steps), rtol=rtol)


def test_published_rules_learn_and_isolation_isolates(published, ios):
    """A mean against isolation is as good as no communication, and IOS drops the isolators."""
    cell = {
        (rule, attack): np.mean(ios.ios_cell(small(published), rule, attack, "label-separated", 0, 300))
        for rule, attack in (("IOS", "isolation"), ("MH mean", "isolation"), ("no communication", "none"))
    }
    assert cell["IOS", "isolation"] > 60
    assert cell["MH mean", "isolation"] < 40
    assert cell["no communication", "none"] < 40


def test_ios_reports_the_mean_of_its_last_ten_records(published, ios, monkeypatch):
    said, data = iter([0.0, 100.0]), small(published)  # at rounds 1 and 501
    monkeypatch.setattr(ios, "accuracy", lambda *_: next(said))
    assert ios.ios_cell(data, "no communication", "none", "iid", 0, 501) == [0, 100]
    monkeypatch.setattr(ios, "accuracy", lambda *_: 1.0)
    assert ios.ios_cell(data, "no communication", "none", "iid", 0, 5200) == [1] * 10
    cell = published.Cell("IOS", "none", 1.0, lambda rounds: [1.0, 3.0, 5.0])
    made = published.computed({"rounds": 9}, cell, None)
    assert (made["ours"], made["error"]) == (3, pytest.approx(2 / 3**0.5))


def test_nan_is_never_right(published):
    accuracy = importlib.import_module("published_common").accuracy
    logits = np.array([[0, np.nan, 5], [1, 0, 0], [0, 0, 0]])
    assert accuracy(logits, np.array([1, 0, 0])) == pytest.approx(200 / 3)


def test_gradients_of_wu_are_those_of_their_loss(published):
    """Two softmaxes, as in their code; by differences, client by client and row by row."""
    wu, rng = importlib.import_module("published_wu"), np.random.default_rng(0)
    p, w = 3, rng.normal(size=4 * 50 + 51 * 10)
    rows = np.concatenate([rng.normal(size=(2, 4, p)), np.ones((2, 4, 1))], axis=2)
    y = rng.integers(0, 10, (2, 4))

    def loss(w, rows, y):
        A, b, B, c = np.split(w, [p * 50, (p + 1) * 50, (p + 1) * 50 + 500])
        total = 0.0
        for x, label in zip(rows[:, :p], y, strict=True):
            z = np.tanh(x @ A.reshape(p, 50) + b) @ B.reshape(50, 10) + c
            once = np.exp(z) / np.exp(z).sum()
            total -= np.log(np.exp(once[label]) / np.exp(once).sum())
        return total / len(y)

    G = wu.gradients(w, rows, y)
    for j in rng.permutation(len(w))[:60]:
        e = 1e-6 * (np.arange(len(w)) == j)
        for k in range(2):
            slope = (loss(w + e, rows[k], y[k]) - loss(w - e, rows[k], y[k])) / 2e-6
            assert G[k, j] == pytest.approx(slope, abs=1e-8)


def test_wu_attackers_win_against_the_mean_only(published):
    """Twenty that send -3 times the mean turn the mean around: it becomes worse than guessing."""
    wu, data = importlib.import_module("published_wu"), small(published)
    for rule, least, most in (("mean", 0, 10), ("geometric median", 30, 100)):
        assert least <= wu.wu_cell(data, rule, "sign", 0, 100)[0] < most
