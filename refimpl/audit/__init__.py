"""Judges somebody else's implementation: which definition does it compute?

    python -m refimpl.audit my_package.rules:krum --as krum
    refimpl.audit.judge(my_rules.krum, "krum")

`kinds` is the table of what can be judged, `variants` that of the other definitions that are known, `cases`
says on which inputs; `judge` compares, and `report` is what it says. docs/PEERS.md shows it at work.
"""

from refimpl.audit.judge import judge
from refimpl.audit.kinds import KINDS
from refimpl.audit.report import Report

__all__ = ["KINDS", "Report", "judge"]
