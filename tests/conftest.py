"""hypothesis: random on a desk, the same every time in CI; fewer on a device, where each operation is a launch.

No time limits: the machines are noisy.
"""

import os
from importlib.util import find_spec

import hypothesis
import on_device
import pytest
import strict_device
from threadpoolctl import threadpool_limits

from refimpl import arrays

pytest_plugins = ["refimpl.plugin"]  # also where refimpl is not installed

hypothesis.settings.register_profile("desk", deadline=None, max_examples=60)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=60, derandomize=True)
hypothesis.settings.register_profile("device", deadline=None, max_examples=20, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")

threadpool_limits(1)  # as every run does: small products, where more threads only wait for each other


@pytest.fixture
def patient(monkeypatch):
    """However busy the machine is, the audit asks all cases and makes examples as small as can be."""
    from refimpl.audit import caller, counterexample

    monkeypatch.setattr(caller, "TIMES", 100)
    monkeypatch.setattr(counterexample, "SECONDS", 100.0)


# --- Devices: see docs/engineering/GPU.md ---------------------------------------------------------------------


def backend(name):
    """The array module: the strict stand-in, always there, or cupy, if it finds a device."""
    return strict_device if name == "strict" else arrays.gpu()


@pytest.fixture
def cupy():
    """The module, with a device that works."""
    try:
        return backend("cupy")
    except arrays.DeviceError as error:
        pytest.skip(str(error))


modules = ["strict", *([pytest.param("cupy", marks=pytest.mark.gpu)] if find_spec("cupy") else [])]


@pytest.fixture(params=modules)
def xp(request, monkeypatch):
    """An array module that is not numpy, and that `--gpu` gets."""
    module = strict_device if request.param == "strict" else request.getfixturevalue("cupy")
    monkeypatch.setattr(arrays, "gpu", lambda device=0: module)
    return module


def pytest_addoption(parser):
    parser.addoption("--on", choices=("strict", "cupy"), help="run the tests written for numpy on this device")


def pytest_configure(config):
    if name := config.getoption("--on"):
        hypothesis.settings.load_profile("device")
        on_device.install(backend(name))


def pytest_collection_modifyitems(config, items):
    for item in items:
        if config.getoption("--on") and (reason := on_device.NOT_HERE.get(item.originalname)):
            item.add_marker(pytest.mark.skip(reason=f"not on a device: {reason}"))


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory):
    """A folder with the results of eight short runs."""
    from refimpl.experiments import cli

    out = tmp_path_factory.mktemp("runs")
    options = "--epochs 2 --batch-size 200 --rules adaptive krum --attacks none alie --seeds 0 1 --jobs 1 --out"
    assert cli.main("spambase", [*options.split(), str(out)]) == 0
    return out
