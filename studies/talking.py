"""Is there a rule that is never worse than not talking, and better when most are honest?

    python studies/talking.py run TASK [options of examples/TASK.py]   # computes runs, as these scripts do
    python studies/talking.py collect FOLDER ...                       # their files -> docs/results/talking.csv
    python studies/talking.py show                                     # the CSV -> part of docs/results/talking.md

Beside all other names, `--rules` knows the skill bar with other margins: skill-bar-0.4 has m = 0.4.
"""

import sys
from functools import partial

from refimpl.experiments import main as experiment
from refimpl.related import SYSTEMS

MARGINS = {"skill-bar" if m == 0.1 else f"skill-bar-{m:g}": m for m in (0, 0.05, 0.1, 0.2, 0.4, 0.8)}


def add_margins() -> None:
    """Puts the skill bar with other margins into SYSTEMS."""
    bar = SYSTEMS["skill-bar"]
    for name, m in MARGINS.items():
        SYSTEMS.setdefault(name, bar._replace(round=partial(bar.round, m=m), label=name, about=f"m = {m:g}"))


if __name__ == "__main__":
    add_margins()
    sys.exit(experiment(sys.argv[2], sys.argv[3:]))
