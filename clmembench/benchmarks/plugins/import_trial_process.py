"""The process of a trial import.

It says which file or package it imports, a line each, and at last that it has ended; then the others may be imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from clmembench.benchmarks.plugins import external
from clmembench.benchmarks.plugins.import_trial import DONE, FORKED
from clmembench.host import processes


def _serve() -> None:
    processes.die_with_parent()
    asked = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    forked: list[int] = []
    os.register_at_fork(after_in_child=lambda: os._exit(0), after_in_parent=lambda: forked.append(1))

    def answer(text: str) -> None:
        answers.write(f"{text}\n")
        answers.flush()

    for label, load in external.imports(None if asked["path"] is None else Path(asked["path"]), asked["names"]):
        answer(label)
        with contextlib.suppress(BaseException):  # it will be raised again, where it can be told
            load()
        if forked:
            answer(FORKED)
            os._exit(0)
    answer(DONE)


if __name__ == "__main__":
    _serve()
    os._exit(0)  # whatever threads and handlers they have left
