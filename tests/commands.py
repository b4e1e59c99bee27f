"""Commands of clmembench: called in this process, or run in one of their own where that is what is tested."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from clmembench.cli.program import main
from clmembench.gates.thresholds import POINT
from clmembench.model import Record
from clmembench.plan.budget import Budget
from clmembench.plan.selection import Selection

ROOT = Path(__file__).parent.parent
BRIEF = Budget(min_time_s=0.0, max_time_s=0.2, max_noise=0.05, slope_ns=3e5)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def cli(*args: str, cwd: Path | None = None, encoding: str = "utf-8", **environment: str) -> Ended:
    """Call a command as the entry point does, with these variables besides this process's own: loading NumPy, pandas and the
    driver anew would take longer than most commands. Workers that it starts are processes. An exception that it does not
    catch, which would be a traceback, is raised."""
    driver = [name for name in environment if not name.startswith(("CLMEMBENCH_", "XDG_"))]
    assert not driver, f"{driver}: a driver or Python reads it once, when it is loaded: use process"
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors) for errors in ("strict", "backslashreplace"))
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _warnings():
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["clmembench", *args])
        if cwd is not None:
            patch.chdir(cwd)
        code: object = None
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    assert code is None or isinstance(code, int), code
    return Ended(code or 0, _text(out), _text(err))


def call(*args: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, called as by `cli`."""
    done = cli(*map(str, args))
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def _warnings():
    """What a process prints of warnings, on its standard error; one of ours is an error, as in every test."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda *told: print(warnings.formatwarning(*told[:4]), file=sys.stderr)
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)  # as Python does where nobody tests
        for kind in (DeprecationWarning, UserWarning):
            warnings.filterwarnings("error", category=kind, module=r"clmembench\..*")
        yield


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(stream.encoding)


@contextlib.contextmanager
def brief_points() -> Iterator[None]:
    """Within it the points of commands that are called sample as briefly as a median allows, where nothing is said of their
    precision: how long a point samples by default is for test_sweep and test_sampling to say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "budget_of", lambda *_: BRIEF)
        yield


def process(
    *args: str, cwd: Path | None = None, encoding: str = "utf-8", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, with these variables besides this one's own."""
    return subprocess.run(
        [sys.executable, "-m", "clmembench", *args], capture_output=True, encoding=encoding, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, timeout=240,
    )  # fmt: skip


def as_on_a_quiet_host(path: Path, target: Path | None = None) -> Path:
    """A run file, or a copy of it, without what the host did: beside other tests values are suspect for drift of the core clock
    and for lack of CPUs, and rightly."""
    head, *records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records:
        if record["gate"] == "drift":
            record |= {"status": "ok", "gate": "", "reason": "", "cause": ""}
            record["core_clock"]["after_ns"] = record["core_clock"]["before_ns"]
        record |= dict.fromkeys(("cpu_others", "cpu_stolen", "cpu_waited"))
        for series in record["series"]:
            series["busy"] = 0  # compute units that it promised
    target = target or path
    target.write_text("".join(json.dumps(line) + "\n" for line in (head, *records)), encoding="utf-8")
    return target


def is_measured(record: Record) -> bool:
    """Whether a point was measured, found right, and is `ok`; or suspect by the gate `drift`, exactly where its own readings of
    the core clock are further apart than that gate allows, or by the gate `stamps` on a busy host: the host's doing."""
    drifted = record.core_clock is not None and record.core_clock.moved > POINT.max_drift
    late = (record.status, record.gate) == ("suspect", "stamps") and (record.cpu_others or 0) > 0.5
    return record.checked and (late or (record.status, record.gate) == (("suspect", "drift") if drifted else ("ok", "")))
