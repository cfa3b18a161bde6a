"""Every random number of a run: one named stream per purpose, drawn on the host in float64.

A stream is a child of the run's seed, so that drawing more from one never shifts another: adding an
attack cannot change the batches, and a run on a GPU sees the draws of a run on the CPU.
"""

import numpy as np

from refimpl.models import Layout

# The position in this tuple is the spawn key of the stream: append, never reorder.
STREAMS = ("partition", "init", "batches", "attackers", "attack", "graph", "faults")


def stream(seed: int, purpose: str, *child: int) -> np.random.Generator:
    """The generator for one purpose: PCG64 seeded with child STREAMS.index(purpose) of SeedSequence(seed).

    Further numbers name a child of that stream, such as that of one round.
    """
    if not isinstance(seed, int | np.integer) or seed < 0:  # None would be another seed every time
        raise ValueError(f"needs a whole number as seed, 0 or more, got {seed!r}")
    sequence = np.random.SeedSequence(seed, spawn_key=(STREAMS.index(purpose), *child))
    return np.random.Generator(np.random.PCG64(sequence))


def initial(layout: Layout, workers: int, rng: np.random.Generator) -> np.ndarray:
    """Initial parameters (N, d), each worker's own: uniform in +-1/sqrt(fan_in), weights and biases alike.

    These are PyTorch's; the paper does not say how it draws them.
    """
    bound = np.concatenate([np.full(field.size, field.fan_in**-0.5) for field in layout.fields])
    return rng.uniform(-1.0, 1.0, (workers, layout.size)) * bound


def rounds_per_epoch(sizes: list[int], batch_size: int) -> int:
    """Rounds until the workers together have read as many rows as they hold, rounded up: an epoch."""
    return -(-sum(sizes) // (len(sizes) * batch_size))


def batches(sizes: list[int], batch_size: int, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers for one epoch's batches, (rounds, N, batch_size).

    Worker k reads its `sizes[k]` rows in a fresh random order, `batch_size` a round. One with fewer rows than
    the epoch needs goes on with another order, so every batch is full; a batch that spans two orders may hold a
    row twice. One with more rows leaves some unread; the next epoch starts with a fresh order.
    """
    need = rounds * batch_size
    orders = [np.concatenate([rng.permutation(n) for _ in range(-(-need // n))])[:need] for n in sizes]
    return np.stack(orders).reshape(len(sizes), rounds, batch_size).swapaxes(0, 1)


def attackers(workers: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` of the workers, ascending. With the same seed, a larger count keeps these and adds others."""
    return np.sort(rng.permutation(workers)[:count])


def signals(count: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """The arbitrary attack's factors (count, size), uniform in (-0.5, 0.5): Sec. 5, "Attack Models"."""
    return rng.uniform(-0.5, 0.5, (count, size))
