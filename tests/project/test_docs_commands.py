"""Every command of the documentation is run: those that read, on committed runs; those that measure, without measuring."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from typer.main import get_command

from clmembench.cli.program import app
from clmembench.results import run_files
from clmembench.results.limits import MAX_FILE_BYTES
from tests.commands import ROOT, cli, process

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
COMMAND = re.compile(r"(?<!import )(?<![\w/~:])(?:\.venv/bin/|[\w~/.]*/bin/)?clmembench (?P<args>-?-?[a-z].*)")
OUTPUTS = {"-o", "--output", "--junit", "--parquet", "--figure", "--records"}  # options whose files are written

# The file in the place of one that the documentation names, by command; of all other results files, a run of suite quick.
QUICK = "reports/h200-sxm-quick.jsonl.gz"
RUNS = {
    "report": "reports/h200-sxm-mnf.jsonl.gz",  # its page is made soon
    "advise": "reports/xeon-2-cores-pocl-access.jsonl.gz",
    "casestudy": "reports/h200-sxm-mnf.jsonl.gz",
    "peers": "reports/xeon-2-cores-pocl-peers.jsonl.gz",
    "topology": "reports/h200-sxm-topology.jsonl.gz",
    "--energy": "reports/h200-sxm-energy.jsonl.gz",
}
TEXTS = {
    "bcsstk30.mtx": "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n2 2 1.0\n",
    "triad.csv": "function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime\n"
    "Triad,100,33554432,8,40000.0,0.020,0.022,0.021\n",
}
# in the place of a folder or pattern of runs
FEW_RUNS = {
    "report": ("h200-sxm-mnf", "xeon-2-cores-pocl-mnf"),
    "history": ("xeon-2-cores-pocl-quick", "xeon-2-cores-pocl-sync"),
    "fleet": ("xeon-2-cores-pocl-quick", "xeon-2-cores-pocl-sync"),
}

# What this host lacks: the walk-through's own benchmark, which test_example adds and runs; more than one CPU
VALUES = {"strided_read": "stream", "compute_units=[1,2,4]": "compute_units=[1]"}

# Commands that are only parsed, with the names of what they would measure looked up: each measures for minutes.
PARSED = {
    "advise": "measures suite access",
    "casestudy": "measures 15 versions of a program",
    "compare": "--live measures two sides",
    "fleet": "measures the devices of many hosts, or reads their store",
    "peers": "measures this host's libraries",
    "topology": "measures the memory hierarchy",
    "tune": "searches configurations",
}
SYCL = re.compile(r"(.*,)?sycl\b")  # values that need the extra sycl: such commands are parsed
NOT_RUN = {"--install-completion": "it changes the start file of this user's shell"}
EXITS = {"check": {0, 5, 6}, "compare": {0, 5, 6}}  # the outcome is for the data; of all others 0
WRITERS = {"new"}  # commands that are run before others of their block, which read what these write
SLOW = {"report", "history", "advise"}  # commands that take seconds


@dataclass(frozen=True, slots=True)
class Shown:
    """A command as a page shows it."""

    page: str
    args: tuple[str, ...]
    in_text: bool = False
    before: tuple[tuple[str, ...], ...] = ()  # commands further up in its block that write what it needs

    @property
    def measures(self) -> bool:
        """Whether it opens a device for longer than a look, and has no option against that."""
        if self.args[0] == "compare":
            return "--live" in self.args
        return self.args[0] in PARSED and not any(arg.endswith(run_files.SUFFIXES) for arg in self.inputs())

    def inputs(self) -> list[str]:
        """The arguments and values that may name files to be read."""
        return [arg for before, arg in zip(("", *self.args), self.args, strict=False) if before not in OUTPUTS]


def blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Code that may have commands, and whether it stands within a sentence. Blocks marked as text are output."""
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.info.split()[:1] not in (["text"], ["python"], ["json"]):
            yield token.content, False
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content, True


def commands(text: str, page: str) -> Iterator[Shown]:
    for block, in_text in blocks(text):
        before: tuple[tuple[str, ...], ...] = ()
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r" && |; ", re.sub(r"(^|\s)#(?!SBATCH).*", "", line)):
                if (found := COMMAND.search(part)) and not (in_text and found.start()):
                    quoted = part[: found.start()].count("'") % 2  # within bash -c '...'
                    args = found["args"].rstrip("'") if quoted else found["args"]
                    one = Shown(page, tuple(shlex.split(args.partition(" > ")[0])), in_text, before)
                    yield one
                    before += (one.args,) if one.args[0] in WRITERS else ()


def shown() -> list[Shown]:
    found = [one for page in PAGES for one in commands(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix())]
    return list({(one.args, one.in_text): one for one in reversed(found)}.values())[::-1]


ALL = shown()
IN_BLOCKS = [one for one in ALL if not one.in_text]


def place_files(one: Shown, folder: Path) -> None:
    """Put into the folder what the command reads, under the names that it has in the documentation."""
    for number, name in enumerate(one.inputs()):
        path = folder / name
        if name in TEXTS:
            path.write_text(TEXTS[name], encoding="utf-8")
        elif name.endswith(run_files.SUFFIXES) and "*" not in name:
            path.parent.mkdir(parents=True, exist_ok=True)
            kind = "--energy" if "--energy" in one.args else one.args[0]
            run = name if name.startswith("reports/") else RUNS.get(kind, QUICK)
            content = run_copy(run, number)
            path.write_bytes(run_files.compress(content) if run_files.is_compressed(path) else content)
        elif name.startswith("docs/example/"):
            shutil.copytree(ROOT / "docs" / "example", folder / "docs" / "example", dirs_exist_ok=True)
        elif name.endswith(".toml") and (ROOT / name).is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, path)
        elif name.endswith(("*.jsonl", "*.jsonl.gz", "/")) and not name.startswith(("/", "~")):
            parent, _, pattern = name.rpartition("/") if "*" in name else (name, "", "*.jsonl.gz")
            within = (folder / parent).resolve()
            within.mkdir(parents=True, exist_ok=True)
            for run in FEW_RUNS.get(one.args[0], ()):
                content = run_copy(f"reports/{run}.jsonl.gz", 0)
                (within / f"{run}{pattern[1:]}").write_bytes(
                    run_files.compress(content) if pattern.endswith(".gz") else content
                )


def run_copy(run: str, number: int) -> bytes:
    """The content of a committed run with an id and a day of its own, so that its copies are several runs."""
    content = run_files.read_regular(ROOT / run, MAX_FILE_BYTES)
    text = re.sub(rb'("run_id":"[0-9A-Z]{24})[0-9A-Z]{2}"', rb'\g<1>%02d"' % number, content, count=1)
    return re.sub(rb'("started":"\d{4}-\d\d)-\d\d', rb"\g<1>-%02d" % (number + 1), text)


def expanded(one: Shown, folder: Path) -> list[str]:
    """The arguments as a shell hands them over in that folder."""
    found: list[str] = []
    for arg in one.args:
        matches = sorted(str(path.relative_to(folder)) for path in folder.glob(arg)) if "*.jsonl" in arg else []
        value = arg if one.args[0] == "new" else VALUES.get(arg, arg)  # the name of a new benchmark is no known one
        found += matches or [value.replace("$(hostname)", "node01").replace("~/", f"{folder}/")]
    return found


def parse(args: list[str]) -> object:
    """The context of the command that would run: every option is known and every value has its type."""
    command, context = get_command(app), None
    args = list(args)
    name = "clmembench"
    while True:
        inner = getattr(command, "commands", {})
        if not inner:
            return command.make_context(name, args, context)
        context = command.make_context(name, [], context, resilient_parsing=True)
        name = args.pop(0)
        command = inner[name]


def chosen(args: list[str]) -> list[str]:
    """The options of a measuring command that say which points, as `run` has them."""
    found = [part for n, arg in enumerate(args[:-1]) if arg in ("-b", "-a", "-s", "--suite") for part in (arg, args[n + 1])]
    return found + [
        part for bench in args[1:] if args[0] == "tune" and re.fullmatch(r"[a-z_]\w*", bench) for part in ("-b", bench)
    ]


def named(one: Shown) -> str:
    return f"{one.page}:{' '.join(one.args)}"


def tier(one: Shown) -> object:
    slow = one.args[0] in SLOW and not one.measures
    return pytest.param(one, id=named(one), marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("one", [tier(one) for one in IN_BLOCKS])
def test_a_command_of_the_documentation_runs(one, tmp_path):
    if one.args[0] in NOT_RUN:
        pytest.skip(NOT_RUN[one.args[0]])
    if any(SYCL.match(arg) for arg in one.args):
        parse(list(one.args))
        return
    call = process if one.before else cli  # benchmarks that were written and loaded stay in a process
    for earlier in one.before:
        assert call(*earlier, cwd=tmp_path).returncode == 0, earlier
    place_files(one, tmp_path)
    args = expanded(one, tmp_path)
    if one.args[0] == "run" and "--resume" not in args:
        args.append("--dry-run")
    elif one.measures or "--resume" in args:
        parse(args)
        args = ["run", "--dry-run", *chosen(args)]
    done = call(*args, cwd=tmp_path)
    if one.args[0] == "model" and "-d" in one.args:  # this host's devices are CPUs, which the model is not of
        assert (done.returncode, "is a CPU" in done.stderr) == (2, True), done.stderr
        return
    assert done.returncode in EXITS.get(args[0], {0}), (args, done.stdout[-500:], done.stderr[-500:])


@pytest.mark.parametrize("one", [pytest.param(one, id=named(one)) for one in ALL if one.in_text])
def test_a_command_within_a_sentence_has_options_that_exist(one):
    """Placeholders stand in capitals; a name alone, such as `clmembench casestudy`, mentions a command."""
    if len(one.args) > 1 and "..." not in one.args:
        assert parse([arg for arg in one.args if not re.fullmatch(r"\[.*\]", arg)]) is not None


def test_the_documentation_has_commands_and_the_tables_are_used():
    assert len(IN_BLOCKS) > 80 and len({one.page for one in IN_BLOCKS}) > 12
    told = {one.args[0] for one in IN_BLOCKS if one.measures}
    assert told == PARSED.keys()
    assert {one.args[0] for one in IN_BLOCKS} >= SLOW | NOT_RUN.keys()
    offered = set(getattr(get_command(app), "commands", {}))
    assert offered - {one.args[0] for one in ALL} == set(), "commands that no page shows"


def test_what_is_wrong_in_a_page_is_found(tmp_path):
    page = "```sh\nclmembench run -d 0 --sweet quick  # a comment\n.venv/bin/clmembench show a.jsonl | head\n```\n`clmembench`"
    wrong, show = commands(page, "x.md")
    assert wrong.args == ("run", "-d", "0", "--sweet", "quick") and show.args[:2] == ("show", "a.jsonl")
    with pytest.raises(Exception, match="--sweet"):
        parse(list(wrong.args))
    assert list(commands("```text\nclmembench: wrote report.html\n```\n", "x.md")) == []
    (job,) = commands("```sh\nsrun bash -c 'clmembench run -o fleet/$(hostname).jsonl'\n```\n", "x.md")
    assert job.args == ("run", "-o", "fleet/$(hostname).jsonl") and job.inputs() == ["run", "-o"]
    assert cli("run", "-b", "no_such_benchmark", "--dry-run", cwd=tmp_path).returncode == 2
