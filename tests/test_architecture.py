"""Who may import whom: design.md's table, kept."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import clmembench

ROOT = Path(clmembench.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
EVERYTHING = {p.name.removesuffix(".py") for p in ROOT.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
MAY = {  # besides model, itself and the package's version
    "__init__": "", "model": "", "units": "", "stats": "", "data": "", "topology": "", "health": "",
    "matrices": "shown", "lock": "shown file_lock", "shown": "",
    "patterns": "", "tracefile": "", "answers": "derive stats windows",
    "windows": "",
    "derive": "stats", "measure": "stats",
    "benchmarks": "data units matrices patterns windows cubes mnf topology fresh_interpreter", "runtimes": "",
    "environment": "topology",
    "probe": "data",
    "hostload": "", "sensors": "", "claims": "specs", "audit": "gates infer specs units claims",
    "noise": "data derive stats", "matching": "derive", "compare": "derive matching noise stats", "check": "compare units",
    "gates": "derive infer specs stats",
    "child": "measure runtimes benchmarks results limits probe topology gates hostload",
    "isolate": "child limits results runtimes fresh_interpreter",
    "tuning": "data limits specs untrusted", "choices": "selection tuning", "contest": "choices selection stats",
    "search": "child contest derive drive selection stats",
    "plan": "choices infer derive selection tuning units", "drive": "choices plan isolate child selection references",
    "references": "benchmarks selection derive", "dissection": "answers infer",
    "advising": "drive selection child", "peering": "drive selection child references benchmarks",
    "interleaved": "stats", "ab_side": "data isolate fresh_interpreter", "ab_case": "derive interleaved",
    "ab_outcome": "ab_case derive interleaved",
    "ab_rounds": "ab_case child choices interleaved isolate plan selection",
    "fresh_interpreter": "", "program_guard": "", "file_lock": "",
    "cubes": "", "mnf": "", "casestudy": "benchmarks cubes",
    "selection": "benchmarks measure topology",
    "untrusted": "", "limits": "", "results": "limits untrusted file_lock", "content_hash": "data untrusted",
    "specs": "data untrusted", "infer": "derive stats specs patterns",
    "models": "derive stats specs units",
    "report": "content_hash limits untrusted results specs infer models derive stats units health gates check compare noise "
    "shown claims interleaved fresh_interpreter",
    "cli": " ".join(EVERYTHING), "__main__": "cli fresh_interpreter",
}  # fmt: skip
LEAVES = {
    "untrusted", "model", "units", "stats", "data", "topology", "matrices", "shown", "cubes", "fresh_interpreter",
    "program_guard", "file_lock", "__init__",
}  # fmt: skip
LAZY = {"pandas", "scipy", "seaborn", "matplotlib"}
OPENCL = {ROOT / "runtimes" / f"{name}.py" for name in ("opencl", "opencl_build", "opencl_enqueue", "opencl_info")}


RUNS_DATA = {"eval", "exec", "compile", "__import__"}  # as bare names: what a file says is never run
PICKLES = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "xmlrpc", "dbm"}
LOADERS = {"load", "loads", "loadtxt", "genfromtxt", "fromfile", "read_pickle", "system", "popen"}  # of NumPy, pandas and os


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


def breaches(path: Path, text: str) -> list[str]:
    tree = ast.parse(text)
    unit = path.relative_to(ROOT).parts[0].removesuffix(".py")
    allowed = {unit, "__init__", *({"model"} if unit not in LEAVES else ()), *MAY[unit].split()}
    found = []
    for name in imported(tree, package_of(path)):
        top, _, rest = name.partition(".")
        ours = rest.split(".")[0] if rest.split(".")[0] in EVERYTHING else "__init__"
        if top == "clmembench" and ours not in allowed:
            found.append(f"{unit} imports {ours}")
        if top == "pyopencl" and path not in OPENCL:
            found.append(f"{unit} imports pyopencl")
    at_once = imported(tree, package_of(path), at_once=True)
    return found + [f"{unit} imports {name} at module level" for name in at_once if name.split(".")[0] in LAZY]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_keep_the_table(path):
    assert breaches(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_says_on_one_line_what_it_is_for(path):
    first, *rest = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")
    assert first.endswith(".") and rest[:1] in ([], [""]), f"{path} does not start with a docstring of one line"


def runs_data(text: str) -> list[str]:
    """What in a source could run what it reads."""
    tree = ast.parse(text)
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


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_that_is_read_is_run(path):
    assert runs_data(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
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
    assert sorted(runs_data(code)) == sorted(found)


def test_the_table_names_every_module():
    assert MAY.keys() >= EVERYTHING


@pytest.mark.parametrize(
    ("where", "code", "breach"),
    [
        ("stats.py", "from clmembench.model import Record", "stats imports model"),
        ("model/record.py", "import clmembench.analysis.stats", "model imports stats"),
        ("derive.py", "from clmembench import units", "derive imports units"),
        ("derive.py", "def f():\n    from clmembench.results.jsonl import read", "derive imports results"),
        ("report/rows.py", "from ..cli import main", "report imports cli"),
        ("specs.py", "if TYPE_CHECKING:\n    from clmembench.results.jsonl import read", "specs imports results"),
        ("probe.py", "def f():\n    import pyopencl.array", "probe imports pyopencl"),
        ("report/rows.py", "class A:\n    import pandas as pd", "report imports pandas at module level"),
    ],
)
def test_a_breach_is_seen(where, code, breach):
    assert breaches(ROOT / where, code) == [breach]


def test_what_the_table_allows_is_no_breach():
    assert breaches(ROOT / "report" / "rows.py", "from clmembench import __version__, specs\ndef f():\n    import pandas") == []
