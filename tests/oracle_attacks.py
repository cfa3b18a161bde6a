"""Scalar oracles for refimpl.related.attacks: each written from its source, a number at a time, on lists.

SENDS holds, by name, what attacker a sends to worker k in a `World`. Where the source bisects or has weights of
gossip, so do these; SpH knows the eigenvectors of a path and of a complete graph by their formulas.
"""

import math
from typing import Any, NamedTuple


class World(NamedTuple):
    local: list  # the models after the local step, by worker
    before: list  # those that the round began with
    hears: list  # hears[k]: whom k hears, itself included
    attackers: list
    signals: dict  # by attacker
    rule: Any  # (models) -> the model that a receiver makes of them

    @property
    def normal(self):
        return [k for k in range(len(self.local)) if k not in self.attackers]

    @property
    def honest(self):
        return [self.local[k] for k in self.normal]

    def outcome(self, k, lie):
        return self.rule([lie if l in self.attackers else self.local[l] for l in self.hears[k]])


def square(a, b):
    return sum((p - q) ** 2 for p, q in zip(a, b))


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows)]


def deviation(rows):
    return [
        math.sqrt(sum((x - m) ** 2 for x in column) / len(rows)) for column, m in zip(zip(*rows), mean(rows))
    ]


def beside(rows, t):
    """The mean, and t standard deviations."""
    return [m + t * s for m, s in zip(mean(rows), deviation(rows))]


def largest(allowed):
    """The largest g >= 0 that is allowed, by doubling and bisection."""
    low, high = 0.0, 1.0
    while allowed(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def min_max(rows):
    bound = max(square(x, z) for x in rows for z in rows)
    return beside(rows, -largest(lambda g: all(square(beside(rows, -g), x) <= bound for x in rows)))


def min_sum(rows):
    bound = min(sum(square(x, z) for z in rows) for x in rows)
    return beside(rows, -largest(lambda g: sum(square(beside(rows, -g), x) for x in rows) <= bound))


def most_harmful(world, k, lies):
    harm = [square(world.outcome(k, lie), mean(world.honest)) for lie in lies]
    return next(lie for lie, found in zip(lies, harm) if found >= 0.999 * max(harm))


def optimised_alie(world, k, a):
    factors = [t for size in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8) for t in (size, -size)]
    return most_harmful(world, k, [beside(world.honest, t) for t in factors])


def optimised_foe(world, k, a):
    return most_harmful(world, k, [[-(2.0**i) * m for m in mean(world.honest)] for i in range(-8, 8)])


def fang_trimmed_mean(world, k, a):
    sent = []
    then = mean([world.before[l] for l in world.normal])
    for values, now, old, u in zip(zip(*world.honest), mean(world.honest), then, world.signals[a]):
        if now > old:
            end = min(values)
            far = end / 2 if end > 0 else 2 * end
        else:
            end = max(values)
            far = 2 * end if end > 0 else end / 2
        sent.append(end + u * (far - end))
    return sent


def fang_krum(world, k, a):
    start, goal = world.before[k], mean([world.local[l] for l in world.hears[k] if l in world.normal])
    size = 1.0
    while True:
        lie = [s - size * ((g > s) - (g < s)) for s, g in zip(start, goal)]
        if world.outcome(k, lie) == lie or size <= 1e-5:
            return lie
        size /= 2


def dissensus(world, k, a):
    weight = 1 / len(world.hears[k])
    own, pull = world.local[k], [0.0] * len(world.local[k])
    for l in world.hears[k]:
        if l in world.normal and l != k:
            pull = [p + weight * (x - w) for p, x, w in zip(pull, world.local[l], own)]
    liars = sum(weight for l in world.hears[k] if l in world.attackers)
    return [w - 1.5 * p / liars for w, p in zip(own, pull)]


def slowest(hears, normal):
    """The eigenvalue and orthonormal eigenvectors of the slowest mode of a complete graph, or of a path."""
    h = len(normal)
    degrees = [sum(l in hears[k] for l in normal) - 1 for k in normal]
    if all(degree == h - 1 for degree in degrees):
        contrasts = [[1.0] * i + [-float(i)] + [0.0] * (h - i - 1) for i in range(1, h)]
        return h, [[x / math.sqrt(i * (i + 1)) for x in v] for i, v in enumerate(contrasts, start=1)]
    assert sorted(degrees) == [1, 1] + [2] * (h - 2)
    path, left = [normal[degrees.index(1)]], set(normal)
    while len(path) < h:
        left.discard(path[-1])
        path += [l for l in hears[path[-1]] if l in left]
    vector = [math.cos(math.pi * (path.index(k) + 0.5) / h) for k in normal]
    length = math.sqrt(sum(x * x for x in vector))
    return 2 - 2 * math.cos(math.pi / h), [[x / length for x in vector]]


def spectral(world, k, a):
    value, vectors = slowest(world.hears, world.normal)
    liars, place = sum(l in world.attackers for l in world.hears[k]), world.normal.index(k)
    sent = list(world.local[k])
    for v in vectors:
        mode = [sum(x * w for x, w in zip(v, column)) for column in zip(*world.honest)]
        sent = [s + 1.5 * value / liars * v[place] * m for s, m in zip(sent, mode)]
    return sent


def backdoor(world, k, a):
    grown = len(world.local) / len(world.attackers)
    return [m + grown * (w - m) for w, m in zip(world.local[a], mean(world.honest))]


SENDS = {
    "label-flip": lambda world, k, a: world.local[a],
    "gaussian": lambda world, k, a: [m + 30 * u for m, u in zip(mean(world.honest), world.signals[a])],
    "zero": lambda world, k, a: [0.0] * len(world.local[a]),
    "replay": lambda world, k, a: world.before[world.normal[0]],
    "mimic": lambda world, k, a: world.local[world.normal[0]],
    "min-max": lambda world, k, a: min_max(world.honest),
    "min-sum": lambda world, k, a: min_sum(world.honest),
    "alie-optimised": optimised_alie,
    "foe-optimised": optimised_foe,
    "fang-trimmed-mean": fang_trimmed_mean,
    "fang-krum": fang_krum,
    "dissensus": dissensus,
    "sph": spectral,
    "backdoor": backdoor,
}


def flipped(X, y, classes):
    return X, [classes - 1 - label for label in y]


def backdoored(X, y, classes):
    """Rows 0, 2, ...: the last three features, or the last three pixels of the last three rows, and label 0."""
    samples, labels = [], []
    for i, (x, label) in enumerate(zip(X, y)):
        if i % 2 == 0:
            bright = [3.0] * 3
            x = x[:-3] + [row[:-3] + bright for row in x[-3:]] if isinstance(x[0], list) else x[:-3] + bright
        samples.append(x)
        labels.append(0 if i % 2 == 0 else label)
    return samples, labels


POISONS = {"label-flip": flipped, "backdoor": backdoored}
