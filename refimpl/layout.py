"""The flat parameter vector and its named tensors.

A model's parameters are one vector w of length d; all workers' are one matrix W of shape (N, d). A
layout says which slice of w is which tensor, in C order.
"""

import math
from typing import NamedTuple

from refimpl.arrays import Array


class Field(NamedTuple):
    """One tensor: entries offset ... offset + size - 1 of the vector, reshaped to `shape`."""

    name: str
    offset: int
    shape: tuple[int, ...]
    fan_in: int  # how many inputs each output of its layer sums; scales the initial values

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Layout(NamedTuple):
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """d, the length of the vector."""
        return sum(field.size for field in self.fields)

    def views(self, w: Array) -> dict[str, Array]:
        """The named tensors of w, (..., d) -> {name: (..., *shape)}, as views: writing to one writes to w."""
        return {
            field.name: w[..., field.offset : field.offset + field.size].reshape(*w.shape[:-1], *field.shape)
            for field in self.fields
        }


def layout(tensors: list[tuple[str, tuple[int, ...], int]]) -> Layout:
    """Lays out the tensors, given as (name, shape, fan_in), one after the other."""
    fields: list[Field] = []
    offset = 0
    for name, shape, fan_in in tensors:
        fields.append(Field(name, offset, shape, fan_in))
        offset += fields[-1].size
    return Layout(tuple(fields))
