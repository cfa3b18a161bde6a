"""Other people's libraries, which may be missing."""

import functools
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def missing(*packages: str) -> list[str]:
    """The packages that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


@functools.cache
def byzfl() -> ModuleType:
    """byzfl's aggregators and attacks, without its package's __init__, which imports torchvision."""
    spec = importlib.util.find_spec("byzfl")
    package: Any = ModuleType("byzfl")
    package.__path__ = [str(Path(str(spec and spec.origin)).parent)]
    package.__spec__ = spec
    sys.modules["byzfl"] = package
    package.aggregators = importlib.import_module("byzfl.aggregators")
    package.attacks = importlib.import_module("byzfl.attacks")
    return package


def flower() -> ModuleType:
    """Flower's aggregation functions by themselves: the names that they import only annotate."""
    spec = importlib.util.find_spec("flwr")
    path = Path(str(spec and spec.origin)).parent / "server" / "strategy" / "aggregate.py"
    names = ("flwr", "flwr.common", "flwr.server", "flwr.server.client_proxy")
    stubs: dict[str, Any] = {name: ModuleType(name) for name in names}
    for name in ("FitRes", "NDArray", "NDArrays", "parameters_to_ndarrays"):
        setattr(stubs["flwr.common"], name, object)
    stubs["flwr.server.client_proxy"].ClientProxy = object
    before = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(stubs)
    try:
        loader = importlib.util.spec_from_file_location("flower_aggregate", path)
        assert loader
        assert loader.loader
        module = importlib.util.module_from_spec(loader)
        loader.loader.exec_module(module)
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(before)
    return module
