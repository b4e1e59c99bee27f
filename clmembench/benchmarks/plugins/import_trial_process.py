"""The process of a trial import.

It writes a line with each file or package before its import, and a last line when all imports have ended.
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
    request = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    forked: list[int] = []
    os.register_at_fork(after_in_child=lambda: os._exit(0), after_in_parent=lambda: forked.append(1))

    def answer(text: str) -> None:
        answers.write(f"{text}\n")
        answers.flush()

    for label, load in external.imports(None if request["path"] is None else Path(request["path"]), request["names"]):
        answer(label)
        with contextlib.suppress(BaseException):  # the command imports it again, and reports the exception then
            load()
        if forked:
            answer(FORKED)
            os._exit(0)
    answer(DONE)


if __name__ == "__main__":
    _serve()
    os._exit(0)  # despite threads and exit handlers of the imported code
