"""Mutants of what leads to a run and of what is told of it."""

import argparse
import dataclasses
import itertools
from collections import namedtuple

import numpy as np

from data_loaders import partition
from mutants.common import entry, killer
from refimpl import algorithm, attacks, draws, train
from refimpl.experiments import cli, grid, options, tables, tasks

wired, runs, drawn, dealt, told, asked, attack = map(
    killer, ("wiring", "train", "draws", "partition", "tables", "cli", "attacks")
)
seeds_differ = wired("another_seed_is_another_run_in_everything_that_is_drawn")


# --- Configurations -----------------------------------------------------------------------------------------

DEFAULT = tasks.Config(
    task="spambase", rule="adaptive", attack="none", seed=0, graph="complete",
    **tasks.TASKS["spambase"].defaults,
)  # fmt: skip


def dropped(field):
    """The default in place of what the configuration says."""
    default = {field: getattr(DEFAULT, field)}
    return lambda function: lambda config, *rest: function(dataclasses.replace(config, **default), *rest)


def at_seed_0(purpose):
    """One purpose's stream, whatever the seed."""
    return lambda stream: lambda seed, name: stream(0 if name == purpose else seed, name)


def with_defaults(**changes):
    """`Setting` with other defaults."""
    return lambda right: namedtuple(
        "Setting", right._fields, defaults=(right._field_defaults | changes).values()
    )


# --- Draws and partitions -----------------------------------------------------------------------------------


def carried_over(batches):
    """The rows that the last epoch has left come first."""
    left = {}

    def mutant(sizes, batch_size, rounds, rng):
        need = rounds * batch_size
        orders = []
        for k, n in enumerate(sizes):
            order = left.pop(k, np.arange(0))
            while len(order) < need:
                order = np.concatenate([order, rng.permutation(n)])
            orders.append(order[:need])
            left[k] = order[need:]
        return np.stack(orders).reshape(len(sizes), rounds, batch_size).swapaxes(0, 1)

    return mutant


def no_row_twice(batches):
    """A batch is of one order: what is left of it is dropped."""

    def mutant(sizes, batch_size, rounds, rng):
        rows = [
            rng.permutation(n)[np.arange(batch_size) % n] for n, _ in itertools.product(sizes, range(rounds))
        ]
        return np.stack(rows).reshape(len(sizes), rounds, batch_size).swapaxes(0, 1)

    return mutant


class Told:
    """A generator of which some methods do as they are told."""

    def __init__(self, rng, **methods):
        self.rng, self.methods = rng, methods

    def __getattr__(self, name):
        return self.methods.get(name, getattr(self.rng, name))


def not_shuffled(*calls):
    """A partition whose calls of `permutation` with these numbers leave everything in place."""

    def mutate(deal):
        def mutant(labels, workers, rng):
            count = itertools.count()

            def shuffle(x):
                return (x if np.ndim(x) else np.arange(x)) if next(count) in calls else rng.permutation(x)

            return deal(labels, workers, Told(rng, permutation=shuffle))

        return mutant

    return entry("deal", mutate)


def whatever_is_left(draw_pairs):
    """The places left do not count, but for those that have none."""

    def mutant(holders, workers, rng):
        places, pairs = holders.copy(), np.empty((workers, 2), int)
        for k in range(workers):
            wait = np.where(places > 0, rng.exponential(size=len(places)), np.nan)
            wait[places == workers - k] = -1
            pairs[k] = np.argsort(wait)[:2]
            places[pairs[k]] -= 1
        return pairs

    return mutant


# --- The command line and reports ---------------------------------------------------------------------------


def lost_in(pick):
    """The number of lost models by another choice among the runs."""

    def mutate(rows):
        def mutant(results):
            table = rows(results)
            for row in table:
                of_runs = tables.select(results, row["rule"], row["attack"])
                row["not_finite"] = int(pick([run.last("not_finite") for run in of_runs]))
            return table

        return mutant

    return mutate


def or_zero(number):
    return lambda or_zero=False: number(True)


def any_text(number):
    """What is no number counts as 1."""

    def mutant(*args, **kwargs):
        def parse(text):
            try:
                return number(*args, **kwargs)(text)
            except argparse.ArgumentTypeError:
                if text.isalpha():
                    return 1.0
                raise

        return parse

    return mutant


def with_repetitions(configs):
    def mutant(task, args):
        found = configs(task, args)
        return [config for seed in args.seeds for config in found if config.seed == seed]

    return mutant


T, P = tasks, partition.PARTITIONS
lr = "a_learning_rate_is_a_number_above_0"
MUTANTS = [
    # --- From a configuration to a run
    *(
        (f"{field} is lost on the way", tasks, "build", dropped(field),
         wired("a_field_reaches_what_it_configures", field=field))
        for field in ("task", "rule", "attack", "workers", "attackers", "graph", "risk", "optimizer", "lr",
                      "batch_size", "partition", "features", "dtype", "l2")
    ),
    *(
        (f"{field} is lost on the way", tasks, "method_of", dropped(field),
         wired("a_field_reaches_what_it_configures", field=field))
        for field in ("released", "plain")
    ),
    *(
        (f"{field} is lost on the way", grid, "run", dropped(field),
         wired("a_field_reaches_what_it_configures", field=field))
        for field in ("epochs", "seed", "gpu", "device")
    ),
    *((f"{purpose} of seed 0", draws, "stream", at_seed_0(purpose), seeds_differ)
      for purpose in draws.STREAMS),
    ("the run's own draws of seed 0", train, "run",
     lambda f: lambda s, test, W, seed, *rest, **more: f(s, test, W, 0, *rest, **more),
     seeds_differ, runs("history_is_the_evaluation_of_the_states_at_the_ends_of_epochs", engine=train.plain)),
    # --- Presets
    *(
        (f"another {name} on {task}", T.TASKS, task, entry("defaults", lambda d, n=name, v=value: d | {n: v}),
         wired("a_preset_is_the_papers", task=task))
        for task, name, value in (("mnist", "lr", 0.002), ("mnist", "batch_size", 32), ("har", "lr", 0.1),
                                  ("har", "attackers", 6), ("spambase", "epochs", 100), ("digits", "epochs", 1))
    ),
    ("a larger network on Spambase", T.TASKS, "spambase", entry("model", lambda f: T.TASKS["har"].model),
     wired("a_preset_is_the_papers", task="spambase")),
    ("another share of HAR for testing", T.TASKS, "har", entry("test_share", lambda right: 0.2),
     wired("a_preset_is_the_papers", task="har")),
    *(
        (f"a setting's {name} is another", algorithm, "Setting", with_defaults(**{name: value}),
         wired("what_a_setting_is_unless_told_otherwise"))
        for name, value in (("batch_size", 10), ("step_size", 0.1), ("risk", "batch"), ("rule", "average"))
    ),
    ("FoE at twice the strength", attacks.ATTACKS, "foe", entry("send", lambda f: lambda *a: 2 * f(*a)),
     wired("what_a_setting_is_unless_told_otherwise")),
    ("every attack runs unless told otherwise", attacks.ATTACKS, "alie-corrupted",
     entry("by_default", lambda right: True),
     attack("only_the_papers_reading_of_an_attack_runs_unless_told_otherwise"),
     wired("the_whole_grid_is_every_rule_against_the_papers_attacks")),
    ("a constant divided by rounding", T.FEATURES, "standardised",
     entry("fit", lambda f: lambda seen: lambda X: (X - seen.mean(0)) / (seen.std(0) + (seen.std(0) == 0))),
     wired("a_constant_feature_stays_0", rows=10, value=0.1)),
    ("a constant divided by 0", T.FEATURES, "standardised",
     entry("fit", lambda f: lambda seen: np.errstate(all="ignore")(
         lambda X: (X - seen.mean(0)) / np.ptp(seen, axis=0))),
     wired("a_constant_feature_stays_0", rows=3, value=0.0)),
    # --- Batches
    ("rows left over come first in the next epoch", draws, "batches", carried_over,
     drawn("an_epoch_leaves_rows_unread_and_the_next_starts_with_a_fresh_order")),
    ("what is left of an order is dropped", draws, "batches", no_row_twice,
     drawn("a_batch_that_spans_two_orders_may_hold_a_row_twice"),
     drawn("an_epoch_leaves_rows_unread_and_the_next_starts_with_a_fresh_order")),
    # --- Partitions
    ("rows dealt in file order", P, "iid", not_shuffled(0),
     dealt("published_partitions_keep_their_rows", name="iid"),
     dealt("another_seed_other_parts_where_something_is_drawn", name="iid")),
    ("shards in file order", P, "shards", not_shuffled(0),
     dealt("published_partitions_keep_their_rows", name="shards"),
     dealt("a_workers_rows_are_in_random_order", name="shards")),
    ("the same shards to everyone, always", P, "shards", not_shuffled(1),
     dealt("published_partitions_keep_their_rows", name="shards"),
     dealt("another_seed_gives_the_first_worker_other_labels", name="shards")),
    ("a class's rows in file order", P, "nonuniform", not_shuffled(*range(10)),
     dealt("published_partitions_keep_their_rows", name="nonuniform")),
    ("a worker's rows by class", P, "nonuniform", not_shuffled(*range(10, 20)),
     dealt("published_partitions_keep_their_rows", name="nonuniform")),
    ("pieces of a label in file order", P, "two-labels", not_shuffled(*range(10)),
     dealt("published_partitions_keep_their_rows", name="two-labels"),
     dealt("a_workers_rows_are_in_random_order", name="two-labels")),
    ("the same pairs, always", P, "two-labels",
     entry("deal", lambda f: lambda y, n, rng: f(y, n, Told(rng, exponential=lambda size: np.ones(size)))),
     dealt("published_partitions_keep_their_rows", name="two-labels"),
     dealt("another_seed_gives_the_first_worker_other_labels", name="two-labels")),
    ("labels drawn without regard to the places left", partition, "draw_pairs", whatever_is_left,
     dealt("labels_are_drawn_in_proportion_to_the_places_left"),
     dealt("published_partitions_keep_their_rows", name="two-labels")),
    ("label pairs of the other order", P, "label-pairs", entry("deal", lambda f: lambda *a: f(*a)[::-1]),
     dealt("published_partitions_keep_their_rows", name="label-pairs")),
    ("label shards are the shards of others", P, "label-shards", entry("deal", lambda f: partition.shards),
     dealt("published_partitions_keep_their_rows", name="label-shards")),
    ("hands in another order", partition, "HANDS", lambda hands: hands[::-1],
     dealt("label_shards_are_dealt_as_the_released_code_deals_them")),
    ("training and test rows are not dealt apart", P, "label-shards", entry("splits_first", lambda _: False),
     dealt("in_the_released_split_worker_7_trains_on_one_class_and_is_tested_on_both")),
    ("persons from the last", P, "by-subject", entry("deal", lambda f: lambda *a: f(*a)[::-1]),
     dealt("published_partitions_keep_their_rows", name="by-subject")),
    # --- Reports and the command line
    ("lost only if every seed is", tables, "rows", lost_in(min),
     told("two_seeds_of_which_one_is_lost_are_marked_and_counted")),
    ("lost if the last seed is", tables, "rows", lost_in(lambda counts: counts[-1]),
     told("two_seeds_of_which_one_is_lost_are_marked_and_counted")),
    ("a mean of lost models", tables, "rows", lost_in(np.mean),
     told("two_seeds_of_which_one_is_lost_are_marked_and_counted")),
    ("a learning rate of 0", options, "number", or_zero, asked(lr, text="0")),
    ("a learning rate that is no number", options, "number", any_text, asked(lr, text="abc")),
    ("a seed twice", cli, "configs", with_repetitions, asked("a_seed_named_twice_is_one_run")),
]  # fmt: skip
