"""Writes refimpl/vectors/v1, or another folder with --out. The files are never edited by hand.

    python tests/vectors/generate.py

Importing a module of cases checks and computes them; see `common`. Cases are added: the numbers of those that a
file holds already are checked and stay as they are.
"""

import argparse
from pathlib import Path

import attack_and_graph_cases  # noqa: F401
import later_attack_cases  # noqa: F401
import later_network_cases  # noqa: F401
import later_related_cases  # noqa: F401
import later_related_round_cases  # noqa: F401
import later_related_rule_cases  # noqa: F401
import later_related_size_cases  # noqa: F401
import later_round_cases  # noqa: F401
import later_rule_cases  # noqa: F401
import later_size_cases  # noqa: F401
import later_tailored_cases  # noqa: F401
import later_talking_cases  # noqa: F401
import layer_cases  # noqa: F401
import model_cases  # noqa: F401
import neighbourhood_cases  # noqa: F401
import related_cases  # noqa: F401
import round_cases  # noqa: F401
import rule_cases  # noqa: F401
import trajectory_cases  # noqa: F401
import weight_cases  # noqa: F401
from common import FILES, encode, text
from kept_numbers import kept

from refimpl.vectors import FOLDER


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        path = folder / f"{name}.json"
        path.write_text(text(kept(encode(content), path)) + "\n", encoding="utf-8", newline="\n")
    count = sum(len(content["cases"]) + len(content["errors"]) for content in FILES.values())
    print(f"{len(FILES)} files, {count} cases in {folder}")


if __name__ == "__main__":
    main()
