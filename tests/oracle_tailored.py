"""Scalar oracles for refimpl.related.tailored, on lists, from the definitions in words; see oracle_attacks.

SENDS holds, by name, what attacker a sends to worker k in a `World`. Imports nothing from refimpl.
"""

from typing import Any, NamedTuple

import oracle_layers

MARGIN = 2.0**-26  # the square root of the precision of binary64


class World(NamedTuple):
    local: list  # the models after the local step, by worker
    attackers: list
    t: int  # the round
    shapes: dict  # of the network's tensors, in the order of a flat model
    risk: Any  # (k, model) -> r_k
    slope: Any  # (k, model) -> its gradient
    fooled: Any  # (k, model) -> the risk on worker k's rows, all with the trigger and the label 0
    fooled_slope: Any  # (k, model) -> its gradient


def along(w, direction, length):
    return [x + length * d for x, d in zip(w, direction)]


def farthest(w, goal, allowed):
    """In 256ths of the way, from the largest power of 2 to the least: each is gone if that is allowed."""
    if allowed(goal):
        return goal
    way, gone = [b - a for a, b in zip(w, goal)], 0
    for part in (128, 64, 32, 16, 8, 4, 2, 1):
        if allowed(along(w, way, (gone + part) / 256)):
            gone += part
    return along(w, way, gone / 256)


def descended(w, risk, slope, limit, share=1.0):
    """Twenty steps to where the tangent is down by a share of the risk, but for those that do not lower it."""
    for _ in range(20):
        g = slope(w)
        if risk(w) <= limit or not any(g):
            return w
        trial = along(w, g, -share * risk(w) / sum(x * x for x in g))
        lower = risk(trial) < risk(w)
        w, share = (trial, min(1.0, 2 * share)) if lower else (w, share / 2)
    return w


def turned(w, shapes, places):
    """Unit j of the last hidden layer comes to the place j + places, in a circle, with all its weights."""
    names = list(shapes)
    into, bias, out = names[-4:-1]
    old, new = (oracle_layers.unflatten(w, shapes) for _ in range(2))
    h = len(old[bias])
    for j in range(h):
        to = (j + places) % h
        new[bias][to] = old[bias][j]
        new[out][to] = old[out][j]
        for old_row, new_row in zip(old[into], new[into]):
            new_row[to] = old_row[j]
    return oracle_layers.flatten([new[name] for name in names])


def minus(w):
    return [-x for x in w]


def towards_minus(w, risk):
    limit = (1 - MARGIN) * risk(w)
    return farthest(w, minus(w), lambda v: risk(v) <= limit)


def boundary(world, k, a):
    return towards_minus(world.local[k], lambda v: world.risk(k, v))


def boundary_own(world, k, a):
    """By the mean of all attackers' risks."""
    return towards_minus(
        world.local[k], lambda v: sum(world.risk(b, v) for b in world.attackers) / len(world.attackers)
    )


def fitted(world, k, share):
    w, risk = world.local[k], lambda v: world.risk(k, v)
    limit = (1 - MARGIN) * share * risk(w)
    fit = descended(w, risk, lambda v: world.slope(k, v), limit / 2)
    return farthest(fit, minus(w), lambda v: risk(v) <= limit) if risk(fit) <= limit else fit


def capture_backdoor(world, k, a):
    w = world.local[k]
    limit = (1 - MARGIN) * world.risk(k, w)
    fit = descended(
        w,
        lambda v: world.risk(k, v) + world.fooled(k, v),
        lambda v: along(world.slope(k, v), world.fooled_slope(k, v), 1),
        limit / 100,
    )
    return farthest(w, fit, lambda v: world.risk(k, v) <= limit)


def permuted(world, k, a):
    """Attackers turn by 1, 2, ... h - 1 places, and then by 1 again."""
    w, risk = world.local[k], lambda v: world.risk(k, v)
    step = descended(w, risk, lambda v: world.slope(k, v), (1 - MARGIN) * risk(w), 4 * MARGIN)
    (h,) = world.shapes[list(world.shapes)[-3]]
    turns = [*range(1, h)] * len(world.attackers)
    return turned(step, world.shapes, turns[world.attackers.index(a)])


SENDS = {
    "echo": lambda world, k, a: world.local[k],
    "boundary": boundary,
    "boundary-own": boundary_own,
    "boundary-fitted": lambda world, k, a: fitted(world, k, 1),
    "capture": lambda world, k, a: fitted(world, k, 1 / 100),
    "capture-backdoor": capture_backdoor,
    "permuted": permuted,
    "patient-permuted": lambda world, k, a: world.local[a] if world.t <= 300 else permuted(world, k, a),
}
