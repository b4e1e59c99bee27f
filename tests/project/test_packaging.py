"""What is imported is declared, and the versions that continuous integration can ask for are those that are declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import clmembench
from tests.cases import each

ROOT = Path(__file__).parents[2]
PACKAGE = Path(clmembench.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = PROJECT["dependencies"] + [
    one for extra in ("pocl", "data", "fleet", "history", "test") for one in PROJECT["optional-dependencies"][extra]
]
MODULES = {"ulid": "python-ulid", "typing_extensions": "typing-extensions"}  # where a module is not called as its package
OPTIONAL = {
    "cupy",
    "cupyx",
    "dask",
    "dask_jobqueue",
    "distributed",
    "dpctl",
    "duckdb",
    "pyarrow",
    "pynvml",
    "ruptures",
}  # used where they are there


def name_of(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower().replace("_", "-")


def pinned(file: str) -> dict[str, str]:
    lines = (ROOT / "constraints" / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("==") for line in lines if line and not line.startswith("#"))
    return {name_of(name): version for name, _, version in pairs}


def test_every_import_of_the_package_is_declared():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    others = found - set(sys.stdlib_module_names) - OPTIONAL - {"clmembench"}
    declared = {name_of(one) for one in PROJECT["dependencies"]}
    assert {MODULES.get(name, name) for name in others} - declared == set()


@each("requirement", [one for one in DECLARED if ">=" in one])
def test_the_lowest_version_that_is_declared_is_the_one_that_is_tried(requirement):
    lowest = re.search(r">=([0-9.]+)", requirement)[1].split(".")
    tried = pinned("lowest.txt")[name_of(requirement)].split(".")
    while len(lowest) < len(tried):
        lowest.append("0")
    assert lowest == tried


@pytest.mark.parametrize("file", ["newest.txt", "lowest.txt"])
def test_constraints_name_every_declared_package_in_one_version(file):
    versions = pinned(file)
    assert {name_of(one) for one in DECLARED} - {"clmembench"} <= set(versions)
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in versions.values())
