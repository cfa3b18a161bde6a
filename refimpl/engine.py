"""Engines: what computes the rounds of a run, and with which network. `plain` is the specification itself."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from refimpl.algorithm import Setting, round_
from refimpl.models import Model


class Engine(NamedTuple):
    """The rounds of one setting, and the network that computes them."""

    step: Callable[..., Any]
    """(state, batch, signals) -> a result with the next `state` and the `weights`, (N, N) or None. An engine
    that keeps more than the state between rounds says in `resumable` of its result whether a new engine would
    continue from here to the same bytes, and one that counts something has it in `counts`, by name"""
    model: Model  # the run is evaluated with it


Build = Callable[[Setting], Engine]


def plain(s: Setting) -> Engine:
    """The specification as an engine: `algorithm.round_`, worker by worker."""
    return Engine(partial(round_, s), s.model)
