"""Counts kernel launches and copies, for docs/engineering/GPU.md, which has the command.

Only the CuPy that runs on the CPU can count, and the strict stand-in, whose every operation is one launch.
"""

import ctypes
import itertools

import numpy as np
import strict_device

from refimpl import aggregate, algorithm, attacks, draws, graphs, models, train
from refimpl.fast import engine


def counts(xp):
    """Launches, copies to the device and copies to the host until now; None where nobody counts."""
    if xp is strict_device:
        return np.array(list(strict_device.count.values()))
    library = ctypes.CDLL(None)
    if not hasattr(library, "cpu_launches"):
        return None
    return np.array([library.cpu_launches(), library.cpu_to_device(), library.cpu_to_host()])


def problem(xp, N, model=None, rows=100, dtype="float64", **options):
    """A setting with N workers, 3 of them attackers, on random data, and initial parameters, on the device."""
    model = model or models.mlp([57, 20, 2])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, rows, *model.sample))
    y = rng.integers(0, model.layout.fields[-1].size, (N, rows))
    X, y = [xp.asarray(own) for own in X.astype(dtype)], [xp.asarray(own) for own in y]
    options = {"graph": graphs.complete(N), "attackers": np.array([0, 4, 5]), "attack": "alie"} | options
    W = draws.initial(model.layout, N, draws.stream(0, "init"))
    return algorithm.Setting(model, X, y, **options), xp.asarray(W.astype(dtype))


def per_round(xp, *args, **options):
    """(launches, copies to the device, copies to the host) of a round within an epoch, after the first."""
    rounds = train.rounds(*problem(xp, *args, **options), seed=0, engine=engine.engine)
    total = [counts(xp) for _ in itertools.islice(rounds, 4)]
    steps = np.diff(total[1:], axis=0)
    assert (steps[0] == steps[1]).all()
    return tuple(steps[0].tolist())


def per_epoch(xp, *args, **options):
    """The same for an epoch of five rounds, evaluation included, after the first."""
    total = [counts(xp)]
    for epochs in (1, 2, 3):
        s, W = problem(xp, *args, **options)
        X, y, own = (
            xp.stack([X[0] for X in s.X]),
            xp.stack([y[0] for y in s.y]),
            xp.asarray(np.eye(len(W), dtype=bool)),
        )
        train.run(s, train.HeldOut(X, y, own), W, seed=0, epochs=epochs, engine=engine.engine)
        total.append(counts(xp))
    steps = np.diff(np.diff(total, axis=0), axis=0)
    return tuple(steps[-1].tolist())


def main():
    import cupy

    print("| a round of | launches, N = 10 | N = 20 | N = 40 | copies to the device | to the host |")
    print("|---|---|---|---|---|---|")
    cases = {f"`{rule}`, `alie`": {"rule": rule} for rule in aggregate.RULES}
    others = [name for name, attack in attacks.ATTACKS.items() if attack.by_default and name != "alie"]
    cases |= {f"`local`, `{name}`": {"rule": "local", "attack": name} for name in others}
    cases["`adaptive`, `alie`, batch risk, Adam"] = {"risk": "batch", "optimizer": "adam"}
    small = models.cnn(side=8, channels=(2, 2, 2), hidden=4)
    cases["the same with a network as deep as MNIST's"] = {"risk": "batch", "optimizer": "adam", "model": small}
    for name, options in cases.items():
        found = [per_round(cupy, N, **options) for N in (10, 20, 40)]
        copies = {numbers[1:] for numbers in found}
        assert len(copies) == 1
        print("|", " | ".join(map(str, [name, *(numbers[0] for numbers in found), *copies.pop()])), "|")
    numbers = "{} launches, {} copies to the device, {} to the host".format(*per_epoch(cupy, 10))
    print(f"\nAn epoch of 5 rounds of `adaptive`: {numbers}.")


if __name__ == "__main__":
    main()
