"""Judges somebody else's implementation: which definition does it compute?

    python -m refimpl.audit my_package.rules:krum --as krum
    refimpl.audit.judge(my_rules.krum, "krum")

`kinds` says what can be judged and how it is called, `cases` on which inputs, `variants` which other
definitions are known; `judge` compares and reports.
"""

from refimpl.audit.judge import judge
from refimpl.audit.kinds import KINDS
from refimpl.audit.report import Report

__all__ = ["KINDS", "Report", "judge"]
