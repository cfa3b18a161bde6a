"""Scalar oracles for refimpl.related: each system written from its source, a number at a time, on lists.

x is a list of models (lists of numbers). A `Net` says who hears whom, what a gradient and a loss are, and what
is heard when rows are sent. Every function makes of x, and of what the system remembers, the next ones.
"""

import itertools
import math
from typing import Any, NamedTuple


class Net(NamedTuple):
    hears: list  # hears[k]: whom k hears, itself included, ascending
    normal: list
    f: int
    eta: Any  # (k) -> the step size of worker k in this round
    grad: Any  # (k, model) -> gradient
    loss: Any  # (k, model) -> loss
    say: Any  # (rows) -> what is received in their place
    rows: list  # how many samples each has
    labels: list = ()  # labels[k] of each; this and what follows is for oracle_talking
    batch: list = ()  # batch[k]: the rows of the round
    slope: Any = None  # (k, model, rows) -> gradient on these rows
    risk: Any = None  # (k, model, rows) -> loss on these rows

    def others(self, k):
        return [l for l in self.hears[k] if l != k]

    def descend(self, k, start, direction):
        return [a - self.eta(k) * b for a, b in zip(start, direction)]

    def local(self, k, x):
        return self.descend(k, x[k], self.grad(k, x[k]))


def square(a, b):
    return sum((p - q) ** 2 for p, q in zip(a, b))


def mix(weights, rows):
    return [sum(w * row[c] for w, row in zip(weights, rows)) for c in range(len(rows[0]))]


def mean(rows):
    return mix([1 / len(rows)] * len(rows), rows)


def metropolis(hears):
    n = len(hears)
    degree = [len(h) - 1 for h in hears]
    w = [[0.0] * n for _ in range(n)]
    for k in range(n):
        for l in hears[k]:
            if l != k:
                w[k][l] = 1 / (1 + max(degree[k], degree[l]))
        w[k][k] = 1 - sum(w[k])
    return w


def stepped_then(net, x, aggregate):
    y = [net.local(k, x) for k in range(len(x))]
    got = net.say(y)
    return [aggregate(k, got) if k in net.normal else y[k] for k in range(len(x))]


def screened_then(net, x, screen, mixed_gradient=False):
    got, new = net.say(x), []
    for k in range(len(x)):
        base = screen(k, got) if k in net.normal else x[k]
        new.append(net.descend(k, base, net.grad(k, base if mixed_gradient else x[k])))
    return new


# --- Averaging ----------------------------------------------------------------------------------------------


def d_psgd(net, x):
    w = metropolis(net.hears)
    return screened_then(net, x, lambda k, got: mix(w[k], got))


def d_sgd(net, x):
    w = metropolis(net.hears)
    return stepped_then(net, x, lambda k, got: mix(w[k], got))


def dmsgd(net, x, before, beta=0.9, omega=0.5):
    p, n = metropolis(net.hears), len(x)
    v = [[a - b for a, b in zip(x[k], before[k])] for k in range(n)]
    got_x, got_v, new = net.say(x), net.say(v), []
    for k in range(n):
        g, row = net.grad(k, x[k]), []
        for c in range(len(x[k])):
            inert, pulled = v[k][c], sum(p[k][l] * got_v[l][c] for l in range(n))
            moved = sum(p[k][l] * got_x[l][c] for l in range(n))
            if k not in net.normal:
                pulled, moved = inert, x[k][c]
            row.append(moved - net.eta(k) * g[c] + beta * ((1 - omega) * inert + omega * pulled))
        new.append(row)
    return new, x


def sgp(net, z, biased, u):
    n = len(z)
    out = [sum(l in net.hears[k] for k in range(n)) for l in range(n)]
    y = [net.descend(k, biased[k], net.grad(k, z[k])) for k in range(n)]
    got, new, new_u = net.say(y), [], []
    for k in range(n):
        p = [1 / out[l] if l in net.hears[k] else 0.0 for l in range(n)]
        new.append(mix(p, got) if k in net.normal else y[k])
        new_u.append(sum(a * b for a, b in zip(p, u)) if k in net.normal else u[k])
    return [[a / b for a in row] for row, b in zip(new, new_u)], new, new_u


def largest(v, count):
    keep = sorted(range(len(v)), key=lambda c: (-abs(v[c]), c))[:count]
    return [v[c] if c in keep else 0.0 for c in range(len(v))]


def choco(net, x, copies, count, gamma, authors=True):
    w, n = metropolis(net.hears), len(x)
    y = [net.local(k, x) for k in range(n)]

    def towards(h):
        pull = [
            [sum(w[k][l] * (h[l][c] - h[k][c]) for l in net.hears[k]) for c in range(len(y[k]))]
            for k in range(n)
        ]
        moved = [[a + gamma * b for a, b in zip(y[k], pull[k])] for k in range(n)]
        return [moved[k] if k in net.normal else y[k] for k in range(n)]

    def told(rows):
        q = net.say([largest([a - b for a, b in zip(row, h)], count) for row, h in zip(rows, copies)])
        q = [row if k in net.normal else largest(row, count) for k, row in enumerate(q)]
        return [[a + b for a, b in zip(h, change)] for h, change in zip(copies, q)]

    if authors:
        x = towards(copies)
        return x, told(x)
    copies = told(y)
    return towards(copies), copies


def tv_penalty(net, x, penalty=0.005):
    got, new = net.say(x), []
    for k in range(len(x)):
        g = net.grad(k, x[k])
        if k in net.normal:
            for c in range(len(g)):
                for l in net.hears[k]:
                    g[c] += penalty * ((x[k][c] > got[l][c]) - (x[k][c] < got[l][c]))
        new.append(net.descend(k, x[k], g))
    return new


def fedavg(net, x):
    return stepped_then(net, x, lambda k, got: mix([r / sum(net.rows) for r in net.rows], got))


# --- Screening ----------------------------------------------------------------------------------------------


def keep_own_and_trim(own, others, f):
    return (own + sum(sorted(others)[f : len(others) - f])) / (len(others) - 2 * f + 1)


def krum_choice(rows, f):
    """The position of Krum's choice: n - f - 2 nearest others, one at least."""
    scores = []
    for i, a in enumerate(rows):
        near = sorted(square(a, b) for j, b in enumerate(rows) if j != i)
        scores.append(sum(near[: max(len(rows) - f - 2, 1)]))
    return scores.index(min(scores))


def krum_picks(rows, f):
    left, picked = list(rows), []
    for _ in range(len(rows) - 2 * f):
        picked.append(left.pop(krum_choice(left, f)))
    return picked


def middle(values):
    s, n = sorted(values), len(values)
    return s[n // 2] if n % 2 else (s[n // 2 - 1] + s[n // 2]) / 2


def bridge(net, x, letter, mixed_gradient=False):
    def screen(k, got):
        rows, d = [got[l] for l in net.hears[k]], len(got[k])
        if letter == "T":
            return [keep_own_and_trim(got[k][c], [got[l][c] for l in net.others(k)], net.f) for c in range(d)]
        if letter == "M":
            return [middle([row[c] for row in rows]) for c in range(d)]
        if letter == "K":
            return rows[krum_choice(rows, net.f)]
        picked = krum_picks(rows, net.f)
        columns = [sorted(row[c] for row in picked)[net.f : len(picked) - net.f] for c in range(d)]
        return [sum(column) / len(column) for column in columns]

    return screened_then(net, x, screen, mixed_gradient)


def byrdie(net, x, mixed_gradient=False):
    x = [list(row) for row in x]
    for c in range(len(x[0])):
        got = [row[0] for row in net.say([[row[c]] for row in x], c)]
        base = [got[k] for k in range(len(x))]
        for k in net.normal:
            base[k] = keep_own_and_trim(got[k], [got[l] for l in net.others(k)], net.f)
        new = []
        for k in range(len(x)):
            start = base[k] if k in net.normal else x[k][c]
            at = [*x[k][:c], start, *x[k][c + 1 :]] if mixed_gradient else x[k]
            new.append(start - net.eta(k) * net.grad(k, at)[c])
        for k, value in enumerate(new):
            x[k][c] = value
    return x


def mozi(net, x, lowest_risk=False, alpha=0.5):
    def screen(k, got):
        others = net.others(k)
        near = sorted(others, key=lambda l: (square(got[l], got[k]), l))[: max(1, len(others) - net.f)]
        good = [l for l in near if net.loss(k, got[l]) <= net.loss(k, got[k])]
        if not good:
            good = [min(near, key=lambda l: net.loss(k, got[l]))] if lowest_risk else near[:1]
        return [alpha * a + (1 - alpha) * b for a, b in zip(got[k], mean([got[l] for l in good]))]

    return screened_then(net, x, screen)


def clipped_gossip(net, x, m, radius, momentum=0.9):
    w, n = metropolis(net.hears), len(x)
    m = [[momentum * a + b for a, b in zip(m[k], net.grad(k, x[k]))] for k in range(n)]
    y = [net.descend(k, x[k], m[k]) for k in range(n)]
    got, new = net.say(y), []
    for k in range(n):
        length = {l: math.sqrt(square(got[l], got[k])) for l in net.hears[k]}
        tau = radius
        if radius == "oracle":
            delta = sum(w[k][l] for l in net.hears[k] if l not in net.normal)
            spread = sum(w[k][l] * length[l] ** 2 for l in net.hears[k] if l in net.normal)
            tau = math.sqrt(spread / delta) if delta else math.inf
        if radius == "adaptive":
            delta, reached, spread = sum(sorted(w[k][l] for l in net.others(k))[::-1][: net.f]), 0.0, 0.0
            for l in [k, *sorted(net.others(k), key=lambda l: length[l])]:
                reached += w[k][l]
                if reached >= 1 - delta - 1e-6:
                    break
                spread += w[k][l] * length[l] ** 2
            tau = math.sqrt(spread / delta) if delta else math.inf
        row = list(y[k])
        for l in net.others(k):
            shrink = min(1, tau / length[l]) if length[l] else 1
            row = [r + w[k][l] * shrink * (a - b) for r, a, b in zip(row, got[l], got[k])]
        new.append(row if k in net.normal else y[k])
    return new, m


def trimmed(rows, f):
    columns = [sorted(column)[f : len(rows) - f] for column in zip(*rows)]
    return [sum(column) / len(column) for column in columns]


def smallest_diameter(rows, f):
    best, least = None, math.inf
    for subset in itertools.combinations(rows, len(rows) - f):
        diameter = max((square(a, b) for a, b in itertools.combinations(subset, 2)), default=0)
        if diameter < least:
            best, least = subset, diameter
    return mean(best)


def first_to_come(net, k, turn, got):
    """Without f normal ones, counted in a circle from the one at place k + turn of those other than k."""
    others = [l for l in net.normal if l != k]
    late = [others[(k + turn + i) % len(others)] for i in range(net.f)]
    return [row for l, row in enumerate(got) if l not in late]


def learn(net, x, t, rule):
    n, turns = len(x), 1 + math.ceil(math.log2(t))
    own = [net.grad(k, x[k]) for k in range(n)]
    agreed = own
    for turn in range(turns):
        got = net.say(agreed)
        agreed = [
            rule(first_to_come(net, k, turn, got), net.f) if k in net.normal else own[k] for k in range(n)
        ]
    y = [net.descend(k, x[k], agreed[k]) for k in range(n)]
    got = net.say(y)
    return [rule(first_to_come(net, k, turns, got), net.f) if k in net.normal else y[k] for k in range(n)]


def scissor(own, rows, weights, f):
    """`rows` and `weights` of everyone, `own` a position among them."""
    left = list(range(len(rows)))

    def centre():
        total = sum(weights[l] for l in left)
        return mix([weights[l] / total for l in left], [rows[l] for l in left])

    for _ in range(f):
        z = centre()
        left.remove(max((l for l in left if l != own), key=lambda l: (square(rows[l], z), -l)))
    return centre()


def ios(net, x):
    w = metropolis(net.hears)

    def aggregate(k, got):
        h = net.hears[k]
        return scissor(h.index(k), [got[l] for l in h], [w[k][l] for l in h], net.f)

    return stepped_then(net, x, aggregate)


def multi_task(net, x, L, nu=0.05):
    L = [list(row) for row in L]

    def aggregate(k, got):
        for l in net.hears[k]:
            L[k][l] = (1 - nu) * L[k][l] + nu * net.loss(k, got[l])
        kept = [l for l in net.hears[k] if L[k][l] <= L[k][k]]
        total = sum(1 / L[k][l] for l in kept)
        return mix([1 / L[k][l] / total for l in kept], [got[l] for l in kept])

    return stepped_then(net, x, aggregate), L


# --- Rules --------------------------------------------------------------------------------------------------


def weiszfeld(rows, steps=80, tolerance=1e-5, nu=1e-5):
    z = mean(rows)
    for _ in range(steps):
        near = [1 / max(nu, math.sqrt(square(row, z))) for row in rows]
        before, z = z, mix([a / sum(near) for a in near], rows)
        if math.sqrt(square(before, z)) <= tolerance:
            break
    return z


def multi_krum(rows, f):
    n = len(rows)
    scores = [sum(sorted(square(a, b) for b in rows)[1 : n - f - 1]) for a in rows]
    return mean([rows[i] for i in sorted(range(n), key=lambda i: (scores[i], i))[: n - f - 2]])


def bulyan(rows, f):
    picked, result = krum_picks(rows, f), []
    for column in zip(*picked):
        m = middle(column)
        near = sorted(column, key=lambda v: (abs(v - m), v))[: len(picked) - 2 * f]
        result.append(sum(near) / len(near))
    return result
