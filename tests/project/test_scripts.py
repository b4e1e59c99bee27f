"""Programs of scripts/: none imports what is no longer there. mypy checks them, too."""

from importlib import import_module
from pathlib import Path

import pytest

SCRIPTS = sorted(path.stem for path in (Path(__file__).parents[2] / "scripts").glob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_imported_and_says_what_it_is_for(name):
    assert import_module(f"scripts.{name}").__doc__
