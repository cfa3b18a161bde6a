"""Other people's code, where it defines the same thing: byzfl's and Flower's aggregators, byzfl's attacks.

    pip install --no-deps byzfl flwr && python -m pytest -m peers

--no-deps, because byzfl asks for torchvision and Flower for a server; only their numpy functions are used here.
Where a definition differs, the test says how and shows that the difference is that and nothing else.
"""

import importlib
import importlib.util
import re
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from refimpl import aggregate, attacks
from refimpl.audit.__main__ import main as audit

pytestmark = pytest.mark.peers

ROOT = Path(__file__).parents[1]

SIZES = [(5, 1), (6, 1), (7, 2), (10, 3), (30, 13)]  # n, f, up to the bound n >= 2f + 3
sizes = pytest.mark.parametrize(("n", "f"), SIZES)


def folder_of(package):
    spec = importlib.util.find_spec(package)
    if spec is None:
        pytest.skip(f"{package} is not installed: pip install --no-deps {package}")
    return Path(spec.origin).parent


@pytest.fixture(scope="module")
def byzfl():
    """Its modules without its package's __init__, which imports torchvision and seaborn."""
    pytest.importorskip("torch", reason="byzfl needs torch, which is in the extra 'oracles'")
    package = ModuleType("byzfl")
    package.__path__ = [str(folder_of("byzfl"))]
    package.__spec__ = importlib.util.find_spec("byzfl")  # whoever looks for it again finds one
    before = set(sys.modules)
    sys.modules["byzfl"] = package
    package.aggregators = importlib.import_module("byzfl.aggregators")
    package.attacks = importlib.import_module("byzfl.attacks")
    yield package
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "byzfl":
            del sys.modules[name]


@pytest.fixture(scope="module")
def flower():
    """flwr/server/strategy/aggregate.py by itself: the names that it imports only annotate."""
    path = folder_of("flwr") / "server" / "strategy" / "aggregate.py"
    stubs = {
        name: ModuleType(name) for name in ("flwr", "flwr.common", "flwr.server", "flwr.server.client_proxy")
    }
    for name in ("FitRes", "NDArray", "NDArrays", "parameters_to_ndarrays"):
        setattr(stubs["flwr.common"], name, object)
    stubs["flwr.server.client_proxy"].ClientProxy = object
    spec = importlib.util.spec_from_file_location("flower_aggregate", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for name, stub in stubs.items():
            patch.setitem(sys.modules, name, stub)
        spec.loader.exec_module(module)
    return module


def problems(n, count=5, d=20):
    """Models around a centre, each off by its own amount, so that no two definitions agree by chance."""
    for seed in range(count):
        rng = np.random.default_rng([n, seed])
        W = rng.normal(size=d) + rng.normal(size=(n, d)) * rng.uniform(0.2, 3, (n, 1))
        W.flags.writeable = False
        yield W


def results(W):
    """Flower's form: per client a list of layers and a number of samples. Two layers here."""
    return [([w[:7], w[7:].reshape(-1, 1)], 1) for w in W]


def flat(arrays):
    return np.concatenate([layer.ravel() for layer in arrays])


# --- byzfl --------------------------------------------------------------------------------------------------


@sizes
def test_byzfl_krum_of_f_plus_1_is_krum_of_f(byzfl, n, f):
    """byzfl's Krum(f) sums over n - f - 1 others, Blanchard's over n - f - 2. It
    bounds f by 2f < n instead of n >= 2f + 3."""
    for W in problems(n):
        assert_array_equal(byzfl.aggregators.Krum(f + 1)(W), aggregate.krum(W, f))


def test_byzfl_krum_of_f_is_another_rule(byzfl):
    same = [
        np.array_equal(byzfl.aggregators.Krum(f)(W), aggregate.krum(W, f))
        for n, f in SIZES
        for W in problems(n, 40)
    ]
    assert 0.5 < np.mean(same) < 0.99


@sizes
def test_byzfl_median_trimmed_mean_and_average(byzfl, n, f):
    """The same definitions. (On torch tensors, which are not used here, byzfl casts to float32.)"""
    for W in problems(n):
        assert_allclose(byzfl.aggregators.Median()(W), aggregate.coordinate_median(W), rtol=1e-13)
        assert_allclose(byzfl.aggregators.TrMean(f)(W), aggregate.trimmed_mean(W, f), rtol=1e-12, atol=1e-14)
        assert_allclose(byzfl.aggregators.Average()(W), aggregate.average(W), rtol=1e-12, atol=1e-14)


def test_byzfl_attacks(byzfl):
    """ALIE: byzfl adds tau times the deviation with ddof 1; we subtract z times the one with ddof 0. So
    tau = -z sqrt((h - 1) / h) is the same message. byzfl leaves tau to the caller, we take Baruch's z.
    Inner-product manipulation is FoE, by the name of Xie et al.'s title. byzfl's sign flipping negates the
    honest mean, the paper's negates the attacker's own model: that is FoE with epsilon 1."""
    for honest in problems(7):
        h, z = len(honest), attacks.alie_z(10, 3)
        alie = byzfl.attacks.ALittleIsEnough(tau=-z * np.sqrt((h - 1) / h))(honest)
        assert_allclose(alie, attacks.a_little_is_enough(honest, z), rtol=1e-12)
        foe = byzfl.attacks.InnerProductManipulation(tau=1.5)(honest)
        assert_allclose(foe, attacks.fall_of_empires(honest, 1.5), rtol=1e-12)
        assert_allclose(byzfl.attacks.SignFlipping()(honest), attacks.fall_of_empires(honest), rtol=1e-12)
        assert_array_equal(byzfl.attacks.SignFlipping()(honest[:1]), attacks.sign_flip(honest[:1])[0])


@pytest.mark.refimpl("krum", known="n - f - 1, and an attacker's NaN is chosen")
def test_byzfl_krum_as_its_own_tests_could_have_it(byzfl):
    return lambda W, f: byzfl.aggregators.Krum(f)(W)


@pytest.mark.refimpl("trimmed-mean")
def test_byzfl_trimmed_mean_as_its_own_tests_could_have_it(byzfl):
    return lambda W, f: byzfl.aggregators.TrMean(f)(W)


# A program as --run starts it, on ByzFL's modules without the __init__ of its package, which needs torchvision.
ANSWERS = """
import json, sys, types
import numpy as np
package = types.ModuleType("byzfl")
package.__path__ = [sys.argv[1]]
sys.modules["byzfl"] = package
from byzfl.aggregators import Krum
for line in sys.stdin:
    inputs = json.loads(line)["inputs"]
    W = np.array([float(x) for x in inputs["W"]["data"]]).reshape(inputs["W"]["shape"])
    try:
        said = {"answer": Krum(inputs["f"] + 1)(W).tolist()}
    except ValueError as error:
        said = {"error": str(error)}
    print(json.dumps(said), flush=True)
"""


def test_byzfl_krum_of_f_plus_1_as_a_program(byzfl, tmp_path, capsys):
    (tmp_path / "answers.py").write_text(ANSWERS, encoding="utf-8")
    command = shlex.join([sys.executable, str(tmp_path / "answers.py"), byzfl.__path__[0]])
    assert audit(["--run", command, "--as", "krum", "--limit", "60"]) == 0
    assert "is right: it is krum as in Blanchard et al. 2017" in " ".join(capsys.readouterr().out.split())


# --- Flower -------------------------------------------------------------------------------------------------


@sizes
def test_flower_krum(flower, n, f):
    """The same definition: squared distances, n - f - 2 others. Without the bound on n: there Flower takes at
    least one neighbour."""
    for W in problems(n):
        assert_array_equal(flat(flower.aggregate_krum(results(W), f, 0)), aggregate.krum(W, f))


def test_flower_krum_leaves_out_the_first_of_the_sorted_instead_of_itself(flower):
    """The same numbers, since a distance to a copy of itself is 0 too; ties also go to the lowest index."""
    W = next(problems(7))[[3, 0, 3, 1, 3, 2, 4]]
    assert_array_equal(flat(flower.aggregate_krum(results(W), 2, 0)), aggregate.krum(W, 2))
    square = np.array([[0.0, 7.0], [1.0, 7.0], [0.0, 8.0], [1.0, 8.0]])
    assert_array_equal(flat(flower.aggregate_krum([([w], 1) for w in square], 0, 0)), aggregate.krum(square, 0))


@sizes
def test_flower_median_and_trimmed_mean(flower, n, f):
    """The median is the same. Flower's trimmed mean is told a share and cuts int(share * n) on each side:
    (f + 1/2) / n, for f to survive the rounding."""
    for W in problems(n):
        assert_allclose(flat(flower.aggregate_median(results(W))), aggregate.coordinate_median(W), rtol=1e-13)
        cut = flower.aggregate_trimmed_avg(results(W), (f + 0.5) / n)
        assert_allclose(flat(cut), aggregate.trimmed_mean(W, f), rtol=1e-12, atol=1e-14)
        assert_allclose(flat(flower.aggregate(results(W))), aggregate.average(W), rtol=1e-12, atol=1e-14)


def test_flower_averages_by_the_number_of_samples(flower):
    """Which a peer cannot check: the paper's average counts every model once."""
    weighted = flower.aggregate([([np.array([0.0])], 1), ([np.array([1.0])], 3)])
    assert weighted[0] == 0.75
    assert aggregate.average(np.array([[0.0], [1.0]])) == 0.5


# --- The page -----------------------------------------------------------------------------------------------


def without_rounding(page):
    """Far from the origin, the rounding of another BLAS may turn a choice."""
    return re.sub(r"far from the origin \d+", "far from the origin", page)


def test_the_page_is_what_the_judge_says_today(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    written = (ROOT / "docs" / "PEERS.md").read_text(encoding="utf-8")
    peers = importlib.import_module("peers")
    packages = [library.package for library in peers.LIBRARIES]
    if absent := peers.missing("torch", *packages):
        pytest.skip(f"{', '.join(absent)} not installed: pip install --no-deps {' '.join(packages)}")
    versions = [f"{name}=={version(name)}" for name in packages]
    if other := [name for name in versions if name not in written]:
        pytest.skip(f"docs/PEERS.md is about other versions than {', '.join(other)}")
    assert without_rounding(peers.page()) == without_rounding(written)
