"""A process as a function: inputs go to its standard input, answers come from its standard output, a line each.

Lines are JSON in the notation of the test vectors. docs/JUDGE.md shows them, and a process that speaks so.
"""

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Any

from refimpl.audit.child import how_it_ended
from refimpl.audit.kinds import KINDS
from refimpl.process import reason
from refimpl.vectors import InputError, decode, encode


class Process:
    """A running command as a function of a kind's arguments; `close` ends it.

    `failure` is a line on why its answers are of no use, "" if they are.
    """

    def __init__(self, command: str, kind: str, limit: float) -> None:
        """Starts the command, which gets `limit` seconds for an answer. Raises InputError if it cannot run."""
        self.command, self.kind, self.limit = command, kind, limit
        self.asked, self.failure = 0, ""
        if KINDS[kind].steps:
            raise InputError(f"--run cannot ask for a {kind}; its vectors can: see docs/PORTING.md")
        self.lines: queue.Queue[str] = queue.Queue()  # the last is ""
        try:
            if not shlex.split(command):
                raise ValueError("needs a command")
            self.process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # so that it can be ended with all that it starts
            )
        except (OSError, ValueError) as error:
            raise InputError(f"--run {command!r}: {reason(error)}") from None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __call__(self, *inputs: Any) -> Any:
        """The answer. Raises ValueError if the process refuses the inputs, InputError if it fails."""
        if self.failure:
            raise InputError(self.failure)
        self.asked += 1
        hint = "it has to answer a line before it reads the next, and to flush its output"
        self.failure = f"{self._no_answer} within {self.limit:g} s; {hint}"  # until there is one
        try:
            self._send(inputs)
            answer = self._receive()
        except InputError as error:
            self.failure = str(error)
            raise
        self.failure = ""
        if "answer" not in answer:
            raise ValueError(answer["error"])
        return answer["answer"]

    @property
    def _no_answer(self) -> str:
        return f"{self.command} gives no answer to line {self.asked}"

    def _send(self, inputs: tuple[Any, ...]) -> None:
        assert self.process.stdin
        named = dict(zip(KINDS[self.kind].arguments, inputs, strict=True))
        line = json.dumps({"kind": self.kind, "inputs": encode(named)})
        with suppress(OSError):  # it has ended: so will its output
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        try:
            line = self.lines.get(timeout=self.limit)
        except queue.Empty:
            raise InputError(self.failure) from None
        if not line:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(1)
            raise InputError(f"{self._no_answer}: it {how_it_ended(self.process.returncode)}")
        try:
            return understood(line)
        except ValueError as error:
            shown = line.strip() if len(line) <= 60 else f"{line[:57]}..."
            raise InputError(f"{self.command} answers {shown!r} to line {self.asked}: {error}") from None

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as said:
            for line in said:
                self.lines.put(line)
        self.lines.put("")

    def close(self) -> None:
        """Ends the process; if it has answered more than it was asked, that is a failure."""
        if not self.failure:
            self._hang_up()
            self.reader.join(self.limit)
        kill_group = getattr(os, "killpg", None)  # Windows has no groups, and no SIGKILL
        if self.process.returncode is None and kill_group:
            with suppress(OSError):
                kill_group(self.process.pid, getattr(signal, "SIGKILL", 9))
        self.process.kill()
        self.process.wait()
        self._hang_up()
        self.reader.join(self.limit)
        if not self.failure and (more := self.lines.qsize() - 1) > 0:
            self.failure = f"{self.command} answers {self.asked + more} lines where {self.asked} were asked"

    def _hang_up(self) -> None:
        assert self.process.stdin
        with suppress(OSError):  # of what it has not read
            self.process.stdin.close()


def understood(line: str) -> dict[str, Any]:
    """The answer in a line, its arrays decoded. Raises ValueError."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(answer, dict) or not answer.keys() & {"answer", "error"}:
        raise ValueError('needs {"answer": ...} or {"error": "..."}')
    return decode(answer)
