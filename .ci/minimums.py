"""Prints, for pip, the oldest versions that setup.cfg allows: python .ci/minimums.py [EXTRA ...]"""

import sys
from configparser import ConfigParser
from pathlib import Path


def minimums(text: str, extras: list[str]) -> list[str]:
    """The requirements of a setup.cfg, and of these extras, as pins: numpy>=2.0 is numpy==2.0."""
    config = ConfigParser()
    config.read_string(text)
    lists = [config["options"]["install_requires"], *(config["options.extras_require"][e] for e in extras)]
    return [line.replace(">=", "==") for part in lists for line in part.split()]


if __name__ == "__main__":
    setup = Path(__file__).parents[1] / "setup.cfg"
    print("\n".join(minimums(setup.read_text(encoding="utf-8"), sys.argv[1:])))
