"""Writes cupy_names.json, what CuPy offers: `python tests/cupy_names.py`, with CuPy installed; no GPU needed.

For each function, ufunc and method it keeps the parameters, defaults left out, so that the stand-in device in
`strict_device.py` can refuse whatever CuPy would refuse.
"""

import inspect
import json
import re
from pathlib import Path

FILE = Path(__file__).with_name("cupy_names.json")
FOLDERS = ("", "linalg.", "lib.stride_tricks.")


def parameters(function):
    """'a, axis=None, *, out=None' from the signature, or else from the docstring's first line, or else None."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return from_docstring(inspect.getdoc(function) or "")
    plain = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
        for p in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return text[1:-1].removeprefix("self, ")


def from_docstring(text):
    """From 'ndarray.take(self, Py_ssize_t i, axis=-1) -> ...' or 'exp(x, /, out=None, \\*, dtype=None)'."""
    found = re.match(r"[\w.]*\(([^\[\]]*?)\)( ->.*)?$", text.partition("\n")[0].replace("\\", ""))
    if found is None:
        return None
    pairs = (word.partition("=") for word in re.split(r",\s*(?![^(]*\))", found[1]) if word)
    plain = [name.split()[-1] + "=None" * bool(default) for name, default, _ in pairs]
    return ", ".join(word for word in plain if word != "self")


def public(thing):
    return [name for name in dir(thing) if not name.startswith("_")]


def collect(cupy, numpy):
    functions, same = {}, []
    for folder in FOLDERS:
        here, there = cupy, numpy
        for step in folder.split(".")[:-1]:
            here, there = getattr(here, step), getattr(there, step)
        for name in public(here):
            value, original = getattr(here, name), getattr(there, name, None)
            if inspect.ismodule(value) or original is None:
                continue
            if value is original or isinstance(value, float):
                same.append(folder + name)
            elif callable(value) and not inspect.isclass(value) and (text := parameters(value)) is not None:
                functions[folder + name] = text
    methods, attributes = {}, []
    for name in public(cupy.ndarray):
        value = getattr(cupy.ndarray, name)
        if not callable(value):
            attributes.append(name)
        elif (text := parameters(value)) is not None:
            methods[name] = text
    return {
        "cupy": cupy.__version__,
        "functions": functions,
        "same as numpy's": same,
        "methods": methods,
        "attributes": attributes,
    }


if __name__ == "__main__":
    import cupy
    import numpy

    FILE.write_text(json.dumps(collect(cupy, numpy), indent=0) + "\n", encoding="utf-8")
    print(f"wrote {FILE}, CuPy {cupy.__version__}")
