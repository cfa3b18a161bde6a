"""Other people's libraries, which may be missing: the few modules that are judged, without the rest."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def missing(*packages: str) -> list[str]:
    """The packages that are not installed."""
    return [name for name in packages if importlib.util.find_spec(name) is None]


def pieces(*names: str, stubs: dict[str, dict[str, Any]] | None = None) -> list[ModuleType]:
    """Modules of one library, by their full names; the rest of it need not be importable.

    The packages that hold them are not run: their __init__ imports servers, data and frameworks. `stubs` stand
    for modules that only annotate, or are base classes: their contents by name.
    """
    library = names[0].partition(".")[0]
    of_library = lambda: {name: m for name, m in sys.modules.items() if f"{name}.".startswith(f"{library}.")}
    spec = importlib.util.find_spec(library)
    folder, before = Path(str(spec and spec.origin)).parent, of_library()
    for name in before:
        del sys.modules[name]
    try:
        for name in names:
            parts = name.split(".")
            for depth in range(1, len(parts)):
                package = ModuleType(".".join(parts[:depth]))
                package.__path__ = [str(folder.joinpath(*parts[1:depth]))]
                sys.modules.setdefault(package.__name__, package)
        for name, contents in (stubs or {}).items():
            sys.modules[name] = ModuleType(name)
            vars(sys.modules[name]).update(contents)
        return [importlib.import_module(name) for name in names]
    finally:
        for name in of_library():
            del sys.modules[name]
        sys.modules.update(before)


def byzfl() -> list[ModuleType]:
    """Its aggregators and its attacks."""
    return pieces("byzfl.aggregators", "byzfl.attacks")


def flower() -> ModuleType:
    """Its functions of aggregation."""
    names = ("FitRes", "NDArray", "NDArrays", "parameters_to_ndarrays")
    stubs = {"flwr.common": dict.fromkeys(names, object), "flwr.server.client_proxy": {"ClientProxy": object}}
    return pieces("flwr.server.strategy.aggregate", stubs=stubs)[0]


def byzpy() -> list[ModuleType]:
    """Its aggregators, by coordinate and by geometry, and its attacks."""
    wanted = "aggregators.coordinate_wise", "aggregators.geometric_wise", "attacks"
    graph = "engine.graph.subtask", "engine.graph.operator", "engine.storage.shared_store"
    pool = {"byzpy.engine.graph.pool": {"ActorPool": object}}
    return pieces(*(f"byzpy.{name}" for name in (*wanted, *graph)), stubs=pool)[:3]


def fedml() -> list[ModuleType]:
    """Its defences: Krum, Bulyan, median and trimmed mean."""
    names = "krum", "bulyan", "coordinate_wise_median", "coordinate_wise_trimmed_mean"
    modules = [f"defense.{name}_defense" for name in names]
    return pieces(*(f"fedml.core.security.{name}" for name in (*modules, "common.utils")))[:4]


def openfl() -> list[ModuleType]:
    """Its median, geometric median and weighted average."""
    names = "median", "geometric_median", "weighted_average"
    core = {"openfl.interface.aggregation_functions.core": {"AggregationFunction": object}}
    return pieces(*(f"openfl.interface.aggregation_functions.{name}" for name in names), stubs=core)


def p2pfl() -> list[ModuleType]:
    """Its Krum, median and average."""
    base = type("Aggregator", (), {"__init__": lambda self, **options: None})
    stubs: dict[str, dict[str, Any]] = {
        "p2pfl.learning.aggregators.aggregator": {"Aggregator": base, "NoModelsToAggregateError": ValueError},
        "p2pfl.learning.frameworks.p2pfl_model": {"P2PFLModel": object},
    }
    return pieces(
        *(f"p2pfl.learning.aggregators.{name}" for name in ("krum", "fedmedian", "fedavg")), stubs=stubs
    )
