"""The generated reference names every command, option, axis, metric and field, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from clmembench.benchmarks import discovered
from clmembench.cli import exit_codes
from clmembench.report.schemas import schemas
from scripts import site_commands, site_markdown, site_reference, site_tables

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return site_reference.pages()


def sections(text: str, mark: str) -> dict[str, str]:
    """The text below each heading of this rank, by the heading."""
    heads = re.split(rf"^{mark} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(heads[1::2], heads[2::2], strict=True))


def test_every_command_has_a_section_with_every_option_and_its_variable(pages):
    found = sections(pages["reference/commands.md"], "##")
    contexts = dict(site_commands.contexts())
    assert {"run", "compare --live", "baseline create", "casestudy mnf"} < contexts.keys()
    assert list(found) == [*contexts, "Exit codes"]
    for words, context in contexts.items():
        options = [p for p in context.command.params if p.param_type_name == "option" and p.name != "help"]
        missing = [p.opts[-1] for p in options if not getattr(p, "hidden", False) and p.opts[-1] not in found[words]]
        assert missing == [], words
    assert "`CLMEMBENCH_RUN_BUDGET`" in found["run"] and "`CLMEMBENCH_BASELINE_CREATE_OUTPUT`" in found["baseline create"]


def test_exit_codes_are_those_of_the_code(pages):
    named = {name for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)}
    assert named == site_commands.EXIT_CODES.keys()
    assert "| 130 | interrupted" in pages["reference/commands.md"]


def test_every_benchmark_axis_metric_and_headline_is_there(pages):
    text = pages["reference/benchmarks.md"]
    found = sections(text.partition("## Other libraries")[0], "###")
    ours = {name: one for name, one in discovered().items() if not one.peer_of}
    assert found.keys() == ours.keys()
    assert [f"{n}.{axis}" for n, one in ours.items() for axis in one.axes if f"| `{axis}` |" not in found[n]] == []
    assert [name for name, one in discovered().items() if one.peer_of and f"| `{name}` |" not in text] == []
    metrics = pages["reference/metrics.md"].splitlines()
    for name, one in ours.items():
        wanted = [metric.name.replace("_", " ") for metric in one.metrics]
        assert [line.split(" | ")[1] for line in metrics if line.startswith(f"| `{name}` |")] == wanted
        quantities = {site_markdown.plain(headline.name) for headline in one.headlines}
        assert quantities <= {line.split(" | ")[1] for line in metrics if f" | `{name}` | " in line}


def test_every_field_of_every_schema_is_there(pages):
    found = sections(pages["reference/schemas.md"], "##")
    given = schemas()
    assert found.keys() == given.keys()
    for name, schema in given.items():
        objects = [schema, *schema.get("$defs", {}).values()]
        fields = {field for one in objects for field in one.get("properties", {})}
        assert fields and [field for field in fields if f"| `{field}` |" not in found[name]] == []


def test_every_table_is_there_with_all_its_rows(pages):
    found = sections(pages["reference/tables.md"], "##")
    assert {path.stem for path in site_tables.FOLDER.glob("*.csv")} == site_tables.TITLES.keys()
    assert list(found) == [title for title, *_ in site_tables.TITLES.values()]
    for name, (title, *_) in site_tables.TITLES.items():
        header, *rows = site_tables.read(name)
        assert rows and {len(row) for row in rows} == {len(header)}, name
        assert found[title].count("\n|") == len(rows) + 2, name
        assert site_tables.cells(found[title].splitlines()) == site_tables.read(name), name


def test_names_of_the_python_api_exist(pages):
    names = re.findall(r"^::: (\S+)$", pages["reference/python.md"], re.MULTILINE)
    assert len(names) > 5
    for name in names:
        assert resolve_name(name)


def test_text_means_itself_and_tables_keep_their_columns():
    assert site_markdown.plain("a_b [c] *d* <e> `f_[g]`") == r"a\_b \[c\] \*d\* &lt;e> `f_[g]`"
    assert site_markdown.table(("a", "b"), [("x|y", "z\nw")]).splitlines()[2] == r"| x\|y | z w |"
    assert site_markdown.table(("a",), []) == ""
