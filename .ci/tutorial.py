"""Executes examples/tutorial.ipynb, and compares what it prints with what is kept in it.

    python .ci/tutorial.py            # status 1, with the differences, if it prints something else
    python .ci/tutorial.py --write    # keeps what it prints and draws now

Needs the extras docs, examples and oracles. Pictures are not compared, for versions of matplotlib differ.
"""

import copy
import difflib
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TUTORIAL = Path(__file__).parents[1] / "examples" / "tutorial.ipynb"


def executed(kept):
    """The notebook with what its cells print and draw now, in a folder of its own."""
    made = copy.deepcopy(kept)
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(made, resources=place, record_timing=False, coalesce_streams=True).execute()
    for cell in made.cells:
        if cell.cell_type == "code":  # without the progress of runs, which has times
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    made.metadata = kept.metadata  # without the version of Python
    return made


def printed(notebook):
    """The lines of the code, each cell's followed by those that it prints."""
    lines = []
    for cell in notebook.cells:
        lines += cell.source.splitlines()
        for output in cell.get("outputs", ()):
            text = output.text if "text" in output else output.data["text/plain"]
            lines += [f"> {line}" for line in text.splitlines()]
    return lines


def main(argv):
    kept = nbformat.read(TUTORIAL, as_version=4)
    made = executed(kept)
    if argv == ["--write"]:
        nbformat.write(made, TUTORIAL)
        return 0
    changed = [*difflib.unified_diff(printed(kept), printed(made), "kept", "printed now", lineterm="")]
    print("\n".join(changed) or "as kept")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
