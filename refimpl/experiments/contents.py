"""What a value is made of: a description that is the same in every process.

A user's function counts by its code, its default values, what it is bound to, and what it refers to outside of
itself: values, and functions that count in the same way, be they from another file. What is defined in the
package or in an installed library counts by its name, and a lambda by the names in it. Comments do not count.
"""

import contextlib
import copyreg
import dis
import functools
import hashlib
import importlib
import json
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

PACKAGES = ("refimpl", "data_loaders")
STANDARD = Path(sysconfig.get_path("stdlib"))
PLAIN = {bool, int, float, complex, str, bytes, type(None), type(...)}
Seen = dict[int, tuple[Any, str]]  # by address: a value, kept alive for it, and its description


class UnknownError(Exception):
    """Raised for what cannot be compared with what was there before: a generator, a lock, an open file."""


def sha256(facts: Any) -> str:
    """The checksum of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def described(value: Any, seen: Seen) -> str:
    """A short text for the value, the same for equal ones. Raises UnknownError.

    `seen` gets whatever else was looked at.
    """
    if type(value) in PLAIN:
        return repr(value)
    if id(value) not in seen:
        seen[id(value)] = value, "itself"  # until the next line is done: it may hold itself
        seen[id(value)] = value, sha256(parts(value, seen))[:16]
    return seen[id(value)][1]


def all_described(values: Any, seen: Seen) -> list[str]:
    """The description of each."""
    return [described(value, seen) for value in values]


# --- Where things are defined -------------------------------------------------------------------------------


def home(value: Any) -> str:
    """The name of the module that a function or a class is defined in, or of a module."""
    if isinstance(value, FunctionType):
        return value.__globals__.get("__name__", "")  # `__module__` is what `functools.wraps` makes of it
    return value.__name__ if isinstance(value, ModuleType) else value.__module__


def modules_in(seen: Seen) -> set[str]:
    """The modules of the package that are among what was looked at, or in which some of it is defined."""
    found = {home(value) for value, _ in seen.values() if isinstance(value, FunctionType | ModuleType | type)}
    return {name for name in found if name.partition(".")[0] in PACKAGES}


def is_installed(module: str) -> bool:
    """Whether the module is the package's, Python's or an installed library's, and not a user's."""
    top = module.partition(".")[0]
    return top in PACKAGES or is_library(top)


@functools.cache
def is_library(top: str) -> bool:
    """Whether a module without a dot in its name is Python's own, or in a folder of installed ones."""
    try:
        spec = find_spec(top) if top != "__main__" else None
    except ValueError:  # it was not imported from anywhere
        return False
    if spec is None or spec.origin in ("built-in", "frozen"):
        return spec is not None
    places = [Path(place) for place in spec.submodule_search_locations or [spec.origin or ""]]
    folders = {"site-packages", "dist-packages"}
    return any(place.is_relative_to(STANDARD) or folders & set(place.parts) for place in places)


def is_named(function: FunctionType) -> bool:
    """Whether its name leads to the function: not so for a lambda, a function in a function, a wrapped one."""
    place: Any = sys.modules.get(home(function))
    for name in function.__qualname__.split("."):
        place = getattr(place, name, None)
    return place is function


# --- What things are made of --------------------------------------------------------------------------------


def parts(value: Any, seen: Seen) -> Any:
    """What a value is made of, in JSON. Raises UnknownError."""
    if isinstance(value, type):
        return of_class(value, seen)
    if isinstance(value, ModuleType):
        return of_module(value)
    return KINDS.get(type(value), of_object)(value, seen)


def of_sequence(value: tuple | list, seen: Seen) -> Any:
    return [type(value).__name__, *all_described(value, seen)]


def of_set(value: set | frozenset, seen: Seen) -> Any:
    return [type(value).__name__, *sorted(all_described(value, seen))]


def of_dict(value: dict, seen: Seen) -> Any:
    return ["dict", *all_described([*value, *value.values()], seen)]


def of_array(value: np.ndarray, seen: Seen) -> Any:
    if value.dtype.hasobject:
        return of_object(value, seen)
    flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return ["array", repr(value.dtype), value.shape, hashlib.sha256(flat.data).hexdigest()]


def of_code(value: CodeType, seen: Seen) -> Any:
    sizes = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
    handlers = getattr(value, "co_exceptiontable", b"")  # from Python 3.11 on
    facts = sizes, value.co_code, handlers, value.co_names, value.co_varnames, value.co_freevars
    return ["code", *all_described([*facts, *value.co_consts], seen)]


def of_function(value: FunctionType, seen: Seen) -> Any:
    users = not is_installed(home(value))
    if not users and is_named(value):
        return f"{home(value)}.{value.__qualname__}"
    own = [value.__defaults__, value.__kwdefaults__, vars(value)]
    own += [found for found in closure(value).values() if not isinstance(found, ModuleType)]
    if users:
        return all_described([value.__code__, *own, *references(value)], seen)
    return [home(value), value.__qualname__, words(value.__code__), *all_described(own, seen)]


def words(code: CodeType) -> list[str]:
    """The names and the constants in the code of the package's lambdas: the same for all versions of Python."""
    constants = [repr(const) for const in code.co_consts if isinstance(const, int | float | str | tuple)]
    return [*code.co_varnames, *code.co_names, *constants]


def of_method(value: MethodType | staticmethod | classmethod, seen: Seen) -> Any:
    bound = getattr(value, "__self__", None)
    return [type(value).__name__, *all_described([value.__func__, bound], seen)]


def of_property(value: property, seen: Seen) -> Any:
    return all_described([value.fget, value.fset, value.fdel], seen)


def of_module(value: ModuleType) -> str:
    if not is_installed(home(value)):
        raise UnknownError(f"all of the module {home(value)}")
    return home(value)


def of_class(value: type, seen: Seen) -> Any:
    if is_installed(home(value)):
        return f"{home(value)}.{value.__qualname__}"
    methods = FunctionType | staticmethod | classmethod | property
    not_code = ("_abc_impl", "__annotate_func__")  # the second, since Python 3.14, makes the annotations
    own = {
        key: member
        for key, member in vars(value).items()
        if key not in not_code and (isinstance(member, methods) or not key.startswith("__"))
    }
    return all_described([value.__qualname__, type(value), value.__bases__, own], seen)


def of_object(value: Any, seen: Seen) -> Any:
    """What it would be pickled by. Raises UnknownError if it can't be."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        made = reduce(value) if reduce else value.__reduce_ex__(2)
    except Exception:
        raise UnknownError(f"a {type(value).__qualname__}") from None
    if isinstance(made, str):  # the name of something that there is once
        where = str(getattr(value, "__module__", ""))
        own = [] if is_installed(where) else [type(value)]
        return [where, made, *all_described([*own, getattr(value, "__wrapped__", None)], seen)]
    return all_described([*made[:3], *(list(items or ()) for items in made[3:5])], seen)


KINDS: dict[type, Callable[[Any, Seen], Any]] = {
    tuple: of_sequence,
    list: of_sequence,
    set: of_set,
    frozenset: of_set,
    dict: of_dict,
    np.ndarray: of_array,
    CodeType: of_code,
    FunctionType: of_function,
    MethodType: of_method,
    staticmethod: of_method,
    classmethod: of_method,
    property: of_property,
}
"""All others, and kinds of these, count by what they would be pickled by."""


# --- What a function refers to ------------------------------------------------------------------------------


def closure(function: FunctionType) -> dict[str, Any]:
    """The variables of the functions around it that a function uses."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not set yet
            found[name] = cell.cell_contents
    return found


def references(function: FunctionType) -> Iterator[Any]:
    """The values outside of a function that it refers to: globals, members of modules, what it imports."""
    todo, bound = [function.__code__], closure(function)
    while todo:
        code = todo.pop()
        todo += [const for const in code.co_consts if isinstance(const, CodeType)]
        value: Any = None
        before: Any = None  # the last argument
        for step in dis.get_instructions(code):
            if step.opname == "EXTENDED_ARG":
                continue
            if isinstance(value, ModuleType) and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                value = getattr(value, step.argval, None)
                continue
            if value is not None:
                yield value
            value = None
            if step.opname == "LOAD_GLOBAL":
                value = function.__globals__.get(step.argval)
            elif step.opname == "LOAD_DEREF" and isinstance(bound.get(step.argval), ModuleType):
                value = bound[step.argval]
            elif step.opname == "IMPORT_NAME":
                yield from imported(step.argval, before)
            before = step.argval


def imported(name: str, members: tuple[str, ...] | None) -> list[Any]:
    """What `from name import members` imports, or `import name`; nothing of a library. Raises UnknownError."""
    if is_installed(name) and name.partition(".")[0] not in PACKAGES:
        return []
    try:
        module = importlib.import_module(name)
        for member in members or ():
            if not hasattr(module, member):
                importlib.import_module(f"{name}.{member}")
    except Exception:  # also whatever a user's module raises
        raise UnknownError(f"an import of {name!r}") from None
    return [getattr(module, member) for member in members] if members else [module]
