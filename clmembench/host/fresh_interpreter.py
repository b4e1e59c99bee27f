"""Fresh Python interpreters that import nothing from the folder which they are started in: a folder of runs is data."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent.parent)  # what the package lies in
# this very package, whichever else is installed; and nothing else of what may lie beside it
_RUN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import clmembench
del sys.path[0]
import runpy
runpy.run_module(sys.argv.pop(1), None, "__main__", True)
"""


def command(module: str) -> list[str]:
    """Command line that runs a module of this package; start it in `environment`."""
    return [sys.executable, "-P", "-c", _RUN, ROOT, module]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Environment of a Python that imports nothing from the current folder.

    PYTHONPATH keeps the folders that it names, absolute as of now; an empty entry, which a path that was put together from
    nothing begins or ends with, would be the current folder and goes.
    """
    named = [str(Path(entry).absolute()) for entry in given.get("PYTHONPATH", "").split(os.pathsep) if entry]
    kept = {name: value for name, value in given.items() if name != "PYTHONPATH"}
    return {**kept, "PYTHONSAFEPATH": "1", **({"PYTHONPATH": os.pathsep.join(named)} if named else {})}


def die_with_parent() -> None:
    """Have the system end this process when its parent dies; only Linux can."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextmanager
def inherited() -> Iterator[None]:
    """While the block runs, this process's own environment is such a one: for processes that the standard library starts."""
    names = ("PYTHONPATH", "PYTHONSAFEPATH")
    before, safe = {name: os.environ.get(name) for name in names}, environment(os.environ)
    _set({name: safe.get(name) for name in names})
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
