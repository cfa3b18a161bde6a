"""Judges somebody else's implementation: which definition does it compute?

    python -m refimpl.audit my_package.rules:krum --as krum
    python -m refimpl.audit --run ./my_port --as krum
    refimpl.audit.judge(my_rules.krum, "krum")
    refimpl.audit.assert_right(my_rules.krum, "krum")

Somebody's function is called with inputs, and its answers are compared with those of the definition and of
other definitions that are in use under the same name. The last line is for a test; a difference that is meant
to be gets `known="the variant's name"`, as `--list` has it.

kinds.py           what can be judged: each kind's definition, and how it is called
rounds.py          a round of Algorithm 1 as a kind
cases.py           on what: the test vectors, and inputs drawn at random
child.py           where: in a process of its own, whose silence is noticed
external.py        a program in another language as a function
caller.py          how a function is called: with the arrays that it takes, and under a time limit
variants/          against what: definitions in use under the same name, and likely mistakes
judge.py           which of these agree with the function, and in how many cases
counterexample.py  where it leaves the definition: the smallest input that shows it
hostile.py         what becomes of it under hostile inputs: survives, propagates, is captured, refuses
arithmetic.py      what the definition computes there, step by step
observations.py    what else was seen: does the order of the models matter, do NaNs survive, ...
report.py          what is said

`__main__` is the command. docs/JUDGE.md shows how it is used, docs/PEERS.md what it says.
"""

from refimpl.audit.judge import assert_right, judge
from refimpl.audit.kinds import KINDS
from refimpl.audit.report import Report

__all__ = ["KINDS", "Report", "assert_right", "judge"]
