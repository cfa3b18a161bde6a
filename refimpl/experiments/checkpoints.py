"""A run's checkpoint: a file beside its result, from which the run goes on after a stop to the same bytes.

Arrays and JSON, no pickle. Its name is that of the result, whose fingerprint binds it to the configuration, the
data and the code.
"""

import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from refimpl import train
from refimpl.algorithm import State
from refimpl.arrays import to_host
from refimpl.experiments.atomic import set_aside, write
from refimpl.faults import Underway
from refimpl.process import reason, say
from refimpl.released import Averaging

EVERY = 20  # seconds
STATES: dict[str, Any] = {state.__name__: state for state in (State, Averaging, Underway)}


def path_of(result: Path) -> Path:
    """The file of a run's checkpoint, by that of its result."""
    return result.with_name(f".{result.stem}.checkpoint")


def keeper(path: Path) -> Callable[[Callable[[], train.Progress]], None]:
    """A function for `train.run` to call after a round: every now and then it saves where the run is."""
    last = time.monotonic()

    def after_round(progress: Callable[[], train.Progress]) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            try:
                write(path, packed(progress()))
            except OSError as error:  # the run itself may still end well
                say(f"no checkpoint: {reason(error)}")
            last = time.monotonic()

    return after_round


def packed(progress: train.Progress) -> bytes:
    """The bytes of an .npz file: the arrays of the state, the weights by epoch, and the rest in JSON."""
    kind = type(progress.state)
    facts: dict[str, Any] = {"state": kind.__name__, "position": progress.position, "history": progress.history}
    facts["epochs"] = list(progress.weights_at)
    arrays: dict[str, Any] = {
        f"state {name}": to_host(value) for name, value in progress.state._asdict().items()
    }
    arrays |= {f"weights {epoch}": C for epoch, C in progress.weights_at.items()}
    buffer = io.BytesIO()
    np.savez(buffer, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays)
    return buffer.getvalue()


def load(path: Path, xp: ModuleType) -> train.Progress | None:
    """The progress of the run, or None. A file that can't be read is set aside."""
    if not path.is_file():  # a pipe would keep us waiting
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return unpacked({name: file[name] for name in file.files}, xp)
    except Exception as error:  # a damaged zip can raise nearly anything
        say(f"{path} is not used ({reason(error)}); now {set_aside(path).name}, and the run starts again")
        return None


def unpacked(found: dict[str, np.ndarray], xp: ModuleType) -> train.Progress:
    """The place in the run that `packed` has written, with arrays of `xp`."""
    facts = json.loads(found["facts"].tobytes())
    kind = STATES[facts["state"]]
    values = [found[f"state {name}"] for name in kind._fields]
    state = kind(*(xp.asarray(value) if value.ndim else value.item() for value in values))
    weights = {int(epoch): found[f"weights {epoch}"] for epoch in facts["epochs"]}
    return train.Progress(state, facts["position"], facts["history"], weights)
