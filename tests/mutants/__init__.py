"""Mutants: plausible mistakes, and the tests that must fail when they are patched in. Run by test_mutants.py.

A row of a table is (what it does wrong, where it is patched in, as what, a function from the right thing to the
wrong one, the tests that kill it ...). Only public names and entries of tables are patched.

A file per room: `specification` (with train and released), `fast`, `faults` (with peers), `related`,
`related_attacks`, `tailored`, `talking`, `experiments` (with draws and partitions), `audit`; `vectors`,
`later_vectors`, `related_vectors` and `tailored_vectors` hold what a wrong port may do, and the cases of the
test vectors that notice; `common` what all are written with. A mistake that the audit knows is taken from its
variants, by its name (`known`). To add one: write the mistake and name the tests that should notice it; if
there are none, write one.
"""

from typing import Any, NamedTuple

from mutants import (
    audit,
    experiments,
    fast,
    faults,
    later_vectors,
    related,
    related_attacks,
    related_vectors,
    specification,
    tailored,
    tailored_vectors,
    talking,
    vectors,
)


class Mutant(NamedTuple):
    about: str
    where: Any  # a module, a class or a table
    name: str  # of what is patched there
    mutate: Any  # the right thing -> the wrong one
    killers: tuple  # (test file, test, parameters) of each


MUTANTS = [
    Mutant(*row[:4], row[4:])
    for table in (
        specification,
        fast,
        faults,
        related,
        related_attacks,
        tailored,
        talking,
        experiments,
        audit,
        vectors,
        later_vectors,
        related_vectors,
        tailored_vectors,
    )
    for row in table.MUTANTS
]
