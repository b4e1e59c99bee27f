"""Who may import whom: the tables of docs/architecture.md, kept."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import clmembench
from tests.cases import each

ROOT = Path(clmembench.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
LAZY = {"pandas", "scipy", "seaborn", "matplotlib"}
RUNTIME_OF = {"pyopencl": "opencl", "dpctl": "sycl"}  # libraries that one runtime alone imports
PURE = {"analysis", "gates"}
# of a study: these folders and modules, or after "-" all but these
PURE_IN_STUDIES = {
    "hierarchy": "-command plan views benchmarks from_runs",
    "traces": "-command trace_csv",
    "memory_divergence": "model",
    "fleet": "judging drift findings",
}
IMPURE = {"asyncio", "datetime", "io", "os", "pathlib", "shutil", "socket", "subprocess", "sys", "tempfile", "time"}
LOOSE = 3  # modules at most that are in no package

RUNS_DATA = {"eval", "exec", "compile", "__import__"}  # as bare names: what a file says is never run
PICKLES = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "xmlrpc", "dbm"}
LOADERS = {"load", "loads", "loadtxt", "genfromtxt", "fromfile", "read_pickle", "system", "popen"}  # of NumPy, pandas and os


def floors(of: str) -> dict[str, int]:
    """The floor of each name in the page's table whose second column is headed `of`."""
    table = re.search(rf"^\| floor \| {of} \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert table, f"{PAGE} has no table of the {of}"
    found = {}
    for row in table[1].splitlines():
        floor, names = (cell.strip() for cell in row.strip("|").split("|"))
        found |= dict.fromkeys(names.split(", "), int(floor))
    return found


FLOORS = {
    within: floors(f"parts of {within}" if within else "packages of clmembench")
    for within in ("", "report", "cli", "studies.hierarchy")
}
_READS = PAGE.read_text(encoding="utf-8").split("| study | reads |")[1].split("\n\n")[0]
READS = {row[1]: set(row[2].split(", ")) for row in re.finditer(r"^\| (\w+) \| ([\w, ]+) \|$", _READS, re.MULTILINE)}


def parts(folder: Path) -> set[str]:
    """The modules and packages of a folder."""
    inner = {p.name.removesuffix(".py") for p in folder.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    return inner - {"__init__", "__main__"}


def dotted(path: Path) -> str:
    return ".".join(("clmembench", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {dotted(path): path for path in FILES}


def imported(tree: ast.AST, package: str, at_once: bool = False) -> Iterator[str]:
    """Dotted names of every import, TYPE_CHECKING's and functions' too; `at_once`: those that run on import only."""
    todo = [tree]
    while todo:
        node = todo.pop()
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if at_once and (later or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))):
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            yield from (".".join([*above, *filter(None, [node.module]), alias.name]) for alias in node.names)


def package_of(path: Path) -> str:
    return ".".join(("clmembench", *path.parent.relative_to(ROOT).parts))


def is_study(name: list[str]) -> bool:
    return len(name) > 1 and name[0] == "studies" and (ROOT / "studies" / name[1]).is_dir()


def runs_back(mine: list[str], theirs: list[str]) -> str:
    """What a module of the dotted name `mine` (without clmembench) may not import of `theirs`, or nothing."""
    if is_study(theirs):
        if not is_study(mine):
            return f"{mine[0]} imports studies.{theirs[1]}"
        if mine[1] != theirs[1] and theirs[1] not in READS.get(mine[1], ()):
            return f"studies.{mine[1]} imports studies.{theirs[1]}"
    for within, table in FLOORS.items():
        outer = within.split(".") if within else []
        depth = len(outer)
        if mine[:depth] != outer or theirs[:depth] != outer or min(len(mine), len(theirs)) <= depth:
            continue
        here, there = mine[depth], theirs[depth]
        floor = table["folders of studies"] if not within and is_study(mine) else table.get(here, 99)
        if here != there and there in table and floor <= table[there]:
            return f"{'.'.join(mine[: depth + 1])} imports {'.'.join(theirs[: depth + 1])}"
    return ""


def is_pure(mine: list[str]) -> bool:
    if not is_study(mine):
        return mine[0] in PURE
    names = PURE_IN_STUDIES.get(mine[1], "")
    return bool(names) and (mine[2] in names[1:].split()) != names.startswith("-")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file; 500 files are parsed once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def breaches(path: Path, tree: ast.Module) -> list[str]:
    mine = list(path.relative_to(ROOT).with_suffix("").parts)
    unit = mine[0]
    found = []
    for name in imported(tree, package_of(path)):
        top, *rest = name.split(".")
        if top == "clmembench" and rest:
            found += filter(None, [runs_back(mine, rest)])
        if top in RUNTIME_OF and not path.is_relative_to(ROOT / "runtimes" / RUNTIME_OF[top]):
            found.append(f"{unit} imports {top}")
        if is_pure(mine) and top in IMPURE:
            found.append(f"{unit} is pure and imports {top}")
    at_once = imported(tree, package_of(path), at_once=True)
    return found + [f"{unit} imports {name} at module level" for name in at_once if name.split(".")[0] in LAZY]


def arrows() -> dict[str, set[str]]:
    """Which module imports which, wherever in it."""
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        found[name] = set()
        for one in imported(tree_of(path), package_of(path)):
            while one and one not in MODULES:
                one = one.rpartition(".")[0]
            found[name] |= {one} - {"", name, "clmembench"}
    return found


def circle(found: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def of_files(look: Callable[[Path], object]) -> dict[str, object]:
    """What is found in each file, of those in which something is."""
    assert len(FILES) > 100
    return {str(path.relative_to(ROOT)): found for path in FILES if (found := look(path))}


def test_imports_keep_the_table():
    assert of_files(lambda path: breaches(path, tree_of(path))) == {}


def test_no_modules_import_each_other_in_a_circle():
    assert circle(arrows()) == []


def test_a_circle_is_seen():
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


@pytest.mark.parametrize("within", FLOORS)
def test_the_tables_name_every_package_and_part(within):
    named = FLOORS[within].keys() - {"folders of studies"}
    assert named == parts(ROOT.joinpath(*within.split(".")) if within else ROOT) - {"templates"}


def test_few_modules_are_loose():
    assert len([path for path in ROOT.glob("*.py") if not path.stem.startswith("__")]) <= LOOSE


def test_the_page_names_files_and_folders_that_exist():
    named = re.findall(r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.py)?)`", PAGE.read_text(encoding="utf-8"))
    known = [str(path.relative_to(ROOT)) for path in (*FILES, *ROOT.rglob("*/"))]
    assert named and [name for name in named if not any(f"/{one}/".endswith(f"/{name.strip('/')}/") for one in known)] == []


def lacks_first_line(path: Path) -> bool:
    """Whether a file does not start with a docstring of one line."""
    first, *rest = (ast.get_docstring(tree_of(path)) or "").split("\n")
    return not first.endswith(".") or rest[:1] not in ([], [""])


def test_every_file_says_on_one_line_what_it_is_for():
    assert of_files(lacks_first_line) == {}


def runs_data(tree: ast.Module) -> list[str]:
    """What in a source could run what it reads."""
    found = [f"imports {name}" for name in imported(tree, "clmembench") if name.split(".")[0] in PICKLES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in RUNS_DATA:
            found.append(node.id)
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("np", "pd", "os", "numpy")
        ):
            found += [f"{node.value.id}.{node.attr}"] * (node.attr in LOADERS)
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            found.append(node.arg)
    return found


def test_nothing_that_is_read_is_run():
    assert of_files(lambda path: runs_data(tree_of(path))) == {}


@each(
    ("code", "found"),
    [
        ("eval('1')", ["eval"]),
        ("x = exec", ["exec"]),
        ("import pickle", ["imports pickle"]),
        ("def f():\n from yaml import *", ["imports yaml.*"]),
        ("np.load(p)", ["np.load"]),
        ("np.load(p, allow_pickle=True)", ["np.load", "allow_pickle"]),
        ("run(x, shell=True)", ["shell"]),
        ("os.system(x)", ["os.system"]),
        ("re.compile(x); json.loads(y)", []),
    ],
)
def test_what_would_run_data_is_seen(code, found):
    assert sorted(runs_data(ast.parse(code))) == sorted(found)


@each(
    ("where", "code", "breach"),
    [
        ("analysis/stats.py", "from clmembench.results import jsonl", "analysis imports results"),
        ("model/record.py", "import clmembench.units", "model imports units"),
        ("plan/sweep.py", "from clmembench import measure", "plan imports measure"),
        ("analysis/derive.py", "def f():\n    from clmembench.gates import whole", "analysis imports gates"),
        ("report/frame.py", "from ..cli import main", "report imports cli"),
        ("specs/sheets.py", "if TYPE_CHECKING:\n    from clmembench.results.jsonl import read", "specs imports results"),
        ("report/page/page.py", "from clmembench.studies.hierarchy import plan", "report imports studies.hierarchy"),
        ("studies/hierarchy/plan.py", "from clmembench.studies.traces import x", "studies.hierarchy imports studies.traces"),
        (
            "studies/hierarchy/tlb/tlb.py",
            "from ..levels import dissect",
            "studies.hierarchy.tlb imports studies.hierarchy.levels",
        ),
        ("report/sections/peer_values.py", "from clmembench.report.summary import x", "report.sections imports report.summary"),
        ("units.py", "from clmembench.model import Record", "units imports model"),
        ("measure/probe.py", "def f():\n    import pyopencl.array", "measure imports pyopencl"),
        ("runtimes/opencl/device.py", "def f():\n    import dpctl", "runtimes imports dpctl"),
        ("analysis/plateaus.py", "def f():\n    import time", "analysis is pure and imports time"),
        ("studies/traces/geometry.py", "import time", "studies is pure and imports time"),
        ("report/frame.py", "class A:\n    import pandas as pd", "report imports pandas at module level"),
    ],
)
def test_a_breach_is_seen(where, code, breach):
    assert breaches(ROOT / where, ast.parse(code)) == [breach]


@each(
    ("where", "code"),
    [
        ("report/frame.py", "from clmembench import __version__, units\ndef f():\n    import pandas"),
        ("report/frame.py", "from clmembench.specs import sheets"),
        ("studies/traces/traces.py", "from clmembench.studies.traces import streams"),
        ("studies/traces/traces.py", "from clmembench.studies.hierarchy.replacement import policies"),
        ("report/page/page.py", "from clmembench.studies import studies"),
        ("runtimes/opencl/device.py", "import pyopencl"),
    ],
)
def test_what_the_tables_allow_is_no_breach(where, code):
    assert breaches(ROOT / where, ast.parse(code)) == []
