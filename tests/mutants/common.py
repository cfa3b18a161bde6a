"""What the tables of mutants are written with."""

from refimpl.arrays import quiet
from refimpl.audit.variants import VARIANTS


def killer(module):
    """test("name", **parameters) for the tests of one file."""
    return lambda test, /, **parameters: (f"test_{module}", f"test_{test}", parameters)


def entry(field, mutate):
    """A function that changes this field of a table's entry."""
    return lambda right: right._replace(**{field: mutate(getattr(right, field))})


def variant(kind, name):
    """The function that the audit knows as this variant of a kind."""
    (compute,) = (found.compute for found in VARIANTS[kind] if found.name == name)
    return compute


def known(kind, name, where, target, *killers):
    """The mutant that a variant of the audit is, in place of the definition."""
    return (name, where, target, lambda right: quiet(variant(kind, name)), *killers)


def adam_variant(name):
    """The step of a variant of Adam, without the loop over gradients that the audit judges."""
    return lambda right: variant("adam", name).__wrapped__
