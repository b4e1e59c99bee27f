"""Optional libraries: a command that needs one which is missing ends with one line that names the remedy."""

from __future__ import annotations

import importlib

from clmembench.cli import exit_codes


def require(module: str, extra: str, purpose: str) -> None:
    """Ends the command where a library of one of this package's extras does not load."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        exit_codes.stop(f"{purpose} needs {module} ({error}): pip install 'clmembench[{extra}]'", exit_codes.USAGE)
