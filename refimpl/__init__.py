"""Reference implementation of "Resilient Peer-to-peer Learning based on Adaptive Aggregation".

Bhowmick and Koutsoukos, 2024. docs/AUDIT.md maps each equation to its function. The specification:

algorithm.py  Algorithm 1, worker by worker; start here
aggregate.py  Eq. (3), (5), (6), and the paper's baselines: the table RULES
attacks.py    the paper's four attacks: the table ATTACKS
layers.py     layers and the loss, forward and backward by hand
models.py     the paper's networks, and named tensors in a flat vector of parameters
optim.py      the steps of Eq. (2): the table OPTIMIZERS
graphs.py     who hears whom: the table GRAPHS
draws.py      every random number of a run, a stream for each purpose
arrays.py     which array library the input belongs to; the only file that imports cupy

On top of it:

engine.py     what computes the rounds of a run, and with which network
train.py      rounds, epochs and evaluation, with any engine
methods.py    what a name after --rules means: a rule, a rule as the released code has it, or a system
faults.py     rounds in which messages are lost or late, and workers stop for a while
peers.py      a round in a process that holds some of the workers
released.py   what the authors' released code does differently
process.py    how a command ends: refused, by a signal, into a closed pipe, on a full disk
related/      systems of other papers, and some of ours
fast/         everything that exists only for speed
experiments/  the paper's experiments from the command line
audit/        judges somebody else's implementation
plugin.py     has pytest judge what a marked test returns
vectors/      numbers for ports to other languages, and the check of a port's answers
"""

import importlib
from typing import Any

__version__ = "0.2.0"
ON_DEMAND = {"run": "refimpl.experiments.api"}  # so that the specification imports nothing else


def __getattr__(attribute: str) -> Any:
    """`refimpl.run`, from the part of the package that it stands in."""
    if attribute not in ON_DEMAND:
        raise AttributeError(f"module 'refimpl' has no attribute {attribute!r}")
    return getattr(importlib.import_module(ON_DEMAND[attribute]), attribute)
