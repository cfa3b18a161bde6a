"""Scalar oracles for refimpl.related.talking, on lists, from the definitions in words; see oracle_related.

`net.risk(k, model, rows)` and `net.slope(k, model, rows)` are loss and gradient on these rows of worker k,
`net.labels[k]` all its labels, `net.batch[k]` its rows of the round.
"""

import math

from oracle_related import mix


def entropy(labels):
    shares = [labels.count(c) / len(labels) for c in set(labels)]
    return sum(p * math.log(1 / p) for p in shares)


def bar_of(r, labels, m):
    return max(r, r + m * (entropy(labels) - r))


def mixture_of(got, hears, k, score, bar):
    """All weights anew for each trial, where the code goes from mixture to mixture."""
    kept, result = [k], got[k]
    for r, l in sorted((score(got[l]), l) for l in hears if l != k):
        if r <= bar:
            inverse = [1 / score(got[j]) for j in [*kept, l]]
            trial = mix([a / sum(inverse) for a in inverse], [got[j] for j in [*kept, l]])
            if score(trial) <= bar:
                kept, result = [*kept, l], trial
    return result


def talk(net, x, m, steps_on, judged_on):
    """Everyone steps on some rows and sends; normal workers mix, by the risk on others."""
    y = [net.descend(k, x[k], net.slope(k, x[k], steps_on(k))) for k in range(len(x))]
    got, new = net.say(y), list(y)
    for k in net.normal:
        score = lambda w: net.risk(k, w, judged_on(k))  # noqa: B023
        bar = bar_of(score(got[k]), [net.labels[k][i] for i in judged_on(k)], m)
        new[k] = mixture_of(got, net.hears[k], k, score, bar)
    return new


def skill_bar(net, x, m=0.1):
    return talk(net, x, m, lambda k: net.batch[k], lambda k: range(len(net.labels[k])))


def divided(net):
    """Functions of k: the rows to step on in this round, all rows but those held out, and these."""

    def rest(k):
        return [i for i in range(len(net.labels[k])) if k not in net.normal or i % 5 != 1]

    def held(k):
        return [i for i in range(len(net.labels[k])) if i not in rest(k)]

    def batch(k):
        return [rest(k)[i % len(rest(k))] for i in net.batch[k]]

    return batch, rest, held


def held_out_bar(net, x, m=0.0):
    batch, _, held = divided(net)
    return talk(net, x, m, batch, held)


def chosen_bar(net, x, margins=(0, 0.1, 0.2, 0.4, 0.8)):
    """A whole round for each margin, then a comparison, where the code compares worker by worker."""
    batch, rest, held = divided(net)
    y = [net.descend(k, x[k], net.slope(k, x[k], batch(k))) for k in range(len(x))]
    new = list(y)
    rounds = [talk(net, x, m, batch, rest) for m in margins]
    for k in net.normal:
        for candidate in rounds:
            if net.risk(k, candidate[k], held(k)) < net.risk(k, new[k], held(k)):
                new[k] = candidate[k]
    return new


def two_tracks(net, x, alone, talking, m=0.2):
    batch, rest, held = divided(net)
    talking = talk(net, talking, m, batch, rest)
    alone = [net.descend(k, w, net.slope(k, w, batch(k))) for k, w in enumerate(alone)]
    used = list(talking)
    for k in net.normal:
        if net.risk(k, alone[k], held(k)) <= net.risk(k, talking[k], held(k)):
            used[k] = alone[k]
    return used, alone, talking
