"""Mutants of what leads to a run and of what is told of it."""

import argparse
import contextlib
import dataclasses
import functools
import itertools
import math
from collections import namedtuple
from types import CodeType, FunctionType

import numpy as np
from scipy import stats

from data_loaders import partition
from mutants.common import entry, killer
from refimpl import algorithm, attacks, draws, methods, train
from refimpl.experiments import (
    cli,
    contents,
    fingerprint,
    grid,
    options,
    registry,
    results,
    runner,
    statistics,
    tables,
    tasks,
    watch,
    words,
)
from refimpl.released import differences_of

wired, runs, drawn, dealt, told, asked, attack = map(
    killer, ("wiring", "train", "draws", "partition", "tables", "cli", "attacks")
)
judged, kept, reached, made_of, sent, filed, named, watched = map(
    killer, ("statistics", "results", "fingerprint", "contents", "registry", "grid", "methods", "watch")
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


# --- What a run is computed by ------------------------------------------------------------------------------


def looking_at(kind, change):
    """`described`, of what values of a kind are changed into."""
    return lambda right: lambda value, seen: right(change(value) if isinstance(value, kind) else value, seen)


def without_defaults(function):
    return FunctionType(function.__code__, function.__globals__, "f", None, function.__closure__)


def without(name):
    """`reached`, but for one module."""
    return lambda right: (
        lambda roots: {found: source for found, source in right(roots).items() if found != name}
    )


def put_for_good(installed):
    @contextlib.contextmanager
    def mutant(some):
        registry.put(some)
        yield

    return mutant


def whoever_comes(installed):
    """The entries are put back afterwards, but nobody waits."""

    @contextlib.contextmanager
    def mutant(some):
        before = registry.put(some)
        yield
        registry.put(before)

    return mutant


# --- Statistics ---------------------------------------------------------------------------------------------


def paired(sides=2, ddof=1, less=1, size=abs):
    """Another paired t-test."""

    def mutate(right):
        def mutant(a, b):
            d = np.subtract(a, b)
            if np.std(d) < 1e-12:
                return right(a, b)
            t = size(np.mean(d)) / (np.std(d, ddof=ddof) / math.sqrt(len(d)))
            return float(sides * stats.t.sf(t, len(d) - less))

        return mutant

    return mutate


def of_one_seed(not_worse):
    """The best may have a single seed."""

    def mutant(values):
        means = {name: np.mean(list(by_seed.values())) for name, by_seed in values.items()}
        return statistics.level_with(max(means, key=means.get), values)

    return mutant


def level_untested(level_with):
    """Those that share no seeds are level."""
    return lambda one, values: level_with(one, values) or (set(values) if len(values[one]) > 1 else set())


def best_by(sign=-1, finite=all):
    """`level_with_best` with another sign of losses, or another choice among rules with lost seeds."""

    def mutate(level_with_best):
        @np.errstate(all="ignore")
        def mutant(results, attack, measure):
            values = {}
            for run in results:
                number = run.last(measure) * (sign if "loss" in measure else 1)
                values.setdefault(run.config.rule, {})[run.config.seed] = number
            some = {rule: found for rule, found in values.items() if finite(map(math.isfinite, found.values()))}
            return statistics.not_worse(some) if some else set()

        return mutant

    return mutate


# --- Results ------------------------------------------------------------------------------------------------


def of_one_epoch(paces):
    """All epochs of a run take as long as one."""

    def mutant(found, *rest):
        whole = [dataclasses.replace(run, seconds=run.seconds * run.config.epochs) for run in found]
        return paces(whole, *rest)

    return mutant


def by_count(protocol):
    """As many differences as the released code has are its protocol."""

    def mutant(config):
        every = tuple(differences_of(config.task))
        return protocol(
            dataclasses.replace(
                config, released=every if len(config.released) == len(every) else config.released
            )
        )

    return mutant


def ignoring(name):
    """`is_todays`, whatever this fact is."""

    def mutate(is_todays):
        def mutant(run):
            now = fingerprint.origin_of(run.config)._asdict()
            return is_todays(dataclasses.replace(run, **{name: now[name]}))

        return mutant

    return mutate


def each(**facts):
    """A function of runs that are changed in these facts."""
    return lambda right: lambda runs: right([dataclasses.replace(run, **facts) for run in runs])


T, P = tasks, partition.PARTITIONS
lr = "a_learning_rate_is_a_number_above_0"
scipys = "the_paired_test_is_scipys_and_it_does_not_matter_who_is_first"
edit = "an_edit_counts_for_the_runs_that_reach_the_module_and_for_no_others"
differs = "what_differs_is_told_apart_and_what_is_sent_stays_the_same"
a_run = "what_a_user_has_added_reaches_another_process_for_the_time_of_a_run"
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
        for field in ("epochs", "seed", "loss", "late", "crash", "gpu", "device")
    ),
    *((f"{purpose} of seed 0", draws, "stream", at_seed_0(purpose), seeds_differ)
      for purpose in draws.STREAMS if purpose != "faults"),  # those are in mutants/faults.py
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
    ("every second point of a curve", T.TASKS, "har", entry("evaluate_every", lambda right: 2 * right),
     wired("a_curve_of_a_figure_has_so_many_points", task="har", points=50)),
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
    ("hours from an hour on", words, "duration",
     lambda f: lambda seconds: f(max(seconds, 5401)) if seconds > 3600 else f(seconds),
     killer("words")("a_duration_is_in_the_largest_unit_of_which_it_is_more_than_one_and_a_half",
                     seconds=5400, words="90 minutes")),
    ("lost only if every seed is", tables, "rows", lost_in(min),
     told("two_seeds_of_which_one_is_lost_are_marked_and_counted")),
    ("lost if the last seed is", tables, "rows", lost_in(lambda counts: counts[-1]),
     told("two_seeds_of_which_one_is_lost_are_marked_and_counted")),
    ("a mean of lost models", tables, "rows", lost_in(np.mean),
     told("two_seeds_of_which_one_is_lost_are_marked_and_counted")),
    ("a learning rate of 0", options, "number", or_zero, asked(lr, text="0")),
    ("a learning rate that is no number", options, "number", any_text, asked(lr, text="abc")),
    ("a seed twice", cli, "configs", with_repetitions, asked("a_seed_named_twice_is_one_run")),
    # --- Statistics
    *(
        (about, statistics, "paired_p", paired(**how), judged(scipys, n=3))
        for about, how in (("a better rule is level", {"size": float}), ("one side of the test", {"sides": 1}),
                           ("the deviation by n", {"ddof": 0}), ("n degrees of freedom", {"less": 0}))
    ),
    ("a single seed is the best", statistics, "not_worse", of_one_seed,
     judged("a_rule_of_one_seed_is_never_the_best")),
    ("level without a seed in common", statistics, "level_with", level_untested,
     judged("who_shares_no_seeds_with_anyone_is_level_with_nobody")),
    ("the highest loss is the best", tables, "level_with_best", best_by(sign=1),
     told("the_best_accuracy_is_the_highest_and_the_best_loss_the_lowest")),
    ("a rule with a lost seed is level", tables, "level_with_best", best_by(finite=any),
     told("a_rule_that_lost_a_seed_is_not_level_with_the_best")),
    # --- Results
    ("bytes that are not known are 0", results, "from_row",
     lambda f: lambda row: dataclasses.replace(f(row), bytes_per_round=float(row["bytes_per_round"] or 0)),
     kept("a_number_that_is_lost_or_not_known_is_an_empty_cell")),
    ("plain runs are a table of their own", results, "groups",
     lambda f: lambda some, names=(*results.TOGETHER, "plain"): f(some, names),
     kept("a_run_of_the_specification_belongs_to_the_table_of_the_others")),
    ("runs of other data in one table", results, "groups",
     lambda f: lambda some, names=results.SETTING: f(some, names),
     kept("runs_of_other_data_never_share_a_table")),
    ("as many differences are the same protocol", results, "protocol", by_count,
     kept("a_description_says_under_which_protocol_the_runs_are")),
    *(
        (f"whatever the {name}, it is one version", results, "versions", each(**{name: ""}),
         kept("versions_of_the_code_are_counted", change=[{name: "0ther"}], count=2))
        for name in ("code", "entries")
    ),
    *(
        (f"whatever the {name}, it is today's", results, "is_todays", ignoring(name),
         kept("a_run_is_todays_if_its_code_and_its_entries_are"))
        for name in ("code", "entries")
    ),
    ("nothing is outdated", grid, "outdated", lambda f: lambda out: 0,
     filed("results_of_another_version_are_counted_and_what_is_no_result_is_not")),
    ("an epoch as long as a run", watch, "paces", of_one_epoch,
     watched("paces_are_seconds_per_epoch_of_runs_that_are_known_here")),
    ("a run as long as an epoch", runner, "work",
     lambda f: lambda todo, *rest, **more: f([dataclasses.replace(c, epochs=1) for c in todo], *rest, **more),
     asked("the_time_that_runs_take_is_by_their_epochs_and_by_how_many_run_at_once")),
    ("a plain system on the fast network", methods, "of_system",
     lambda f: lambda name, on, plain: f(name, on, plain)._replace(engine=f(name, on, False).engine),
     named("a_system_is_computed_by_its_own_rounds_on_the_graphs_of_its_schedule", plain=True)),
    # --- What a run is computed by
    *(
        (f"{module} does not count", fingerprint, "reached", without(module), reached(edit, module=module))
        for module in ("refimpl.experiments.tasks", "refimpl.experiments.config", "data_loaders.partition")
    ),
    ("the loaders are not looked at", fingerprint, "SOURCES",
     lambda right: {name: source for name, source in right.items() if not name.startswith("data_loaders")},
     reached(edit, module="data_loaders.spambase")),
    ("a partial's keywords are dropped", contents, "described",
     looking_at(functools.partial, lambda some: functools.partial(some.func, *some.args)),
     made_of(differs, kind="arguments")),
    ("the names in code are dropped", contents, "described",
     looking_at(CodeType, lambda code: code.replace(co_names=())), made_of(differs, kind="names of members")),
    ("default values are dropped", contents, "described", looking_at(FunctionType, without_defaults),
     made_of(differs, kind="defaults")),
    ("the names in lambdas of the package are dropped", contents, "words",
     lambda f: lambda code: [word for word in f(code) if word not in code.co_names],
     made_of("all_functions_that_the_package_ships_are_told_apart")),
    ("closures are dropped", contents, "closure", lambda f: lambda function: {},
     made_of(differs, kind="closures")),
    ("globals are dropped", contents, "references", lambda f: lambda function: [],
     made_of(differs, kind="globals")),
    ("functools.wraps is believed", contents, "home",
     lambda f: lambda value: getattr(value, "__module__", None) or f(value),
     made_of("a_wrapped_function_of_the_package_is_the_users")),
    ("entries stay after a run", registry, "installed", put_for_good, sent(a_run)),
    ("entries are swapped during a run", registry, "installed", whoever_comes,
     sent("runs_with_the_same_entries_overlap_and_others_wait")),
    ("functions of the package arrive as copies", registry, "own_copy", lambda f: lambda own, entry: entry,
     sent(a_run)),
]  # fmt: skip
