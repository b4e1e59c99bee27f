"""A trial import of foreign benchmarks in a separate process: one that crashes, hangs, forks or exits ends no command."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from clmembench.host import processes

IMPORT_LIMIT_S = 30.0  # a library that compiles, or comes over a slow network, takes some seconds
DONE, FORKED = "done", "forked"


def problem_of_import(path: Path | None, names: Iterable[str]) -> tuple[str, str] | None:
    """The first file of a folder, or else the first of these entry points, that cannot be imported, with the reason.

    None if all can be imported, or raise exceptions that can be caught.
    """
    request = json.dumps({"path": None if path is None else str(path), "names": list(names)})
    try:
        trial = subprocess.Popen(
            processes.python_command("clmembench.benchmarks.plugins.import_trial_process"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=processes.python_environment(os.environ),
            start_new_session=True,
            text=True,
        )
    except OSError:  # no process or memory is left; the import itself may still work
        return None
    late = False
    try:
        output, _ = trial.communicate(request, IMPORT_LIMIT_S)
    except subprocess.TimeoutExpired:
        late = True
        _kill_group(trial.pid)
        output, _ = trial.communicate()
    finally:
        _kill_group(trial.pid)
        trial.wait()
    labels = ["", "", *output.splitlines()]
    last = labels[-1]
    if last == DONE or not last:  # the process failed before the first import
        return None
    if last == FORKED:
        return labels[-2], "it forks a process when it is imported, which would be a second command: fork in its function"
    if late:
        return last, f"its import does not end within {IMPORT_LIMIT_S:g} s: move slow and waiting code into its function"
    code = trial.returncode
    how = f"dies of {signal.Signals(-code).name}" if code < 0 else f"ends with exit code {code}"
    return last, f"the process that imports it {how}"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
