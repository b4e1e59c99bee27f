"""Options: their names, short forms and environment variables do not change, each is defined once, and the help can be read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import ascii_uppercase

import typer
from typer.testing import CliRunner

import clmembench
from clmembench.cli.command import Command
from clmembench.cli.program import app
from clmembench.studies.ab import command as live
from tests.cases import each

PACKAGE = Path(clmembench.__file__).parent

WAITS = "--wait --wait-quiet"
FILTERS = "-b/--bench -s/--suite -a/--axis --status -d/--device"
# Every parameter of every command, --help aside: /short and =parameter where its environment variable is not named after it.
OPTIONS = {
    "": "--version --install-completion --show-completion",
    "devices": "--json=as_json",
    "describe": "bench --path",
    "suites": "--path",
    "new": "name -o/--output --overwrite",
    "doctor": "-d/--device --run --json=as_json",
    "run": (
        "-d/--device --runtime -s/--suite -b/--bench -a/--axis --matrix --budget --timeout --benchmark-timeout --processes "
        "--seed --reference --size -o/--output --overwrite --resume --label --tag --wait --wait-quiet --tuning=stored "
        "--no-tuning --strict --no-isolate --wide --json=as_json --dry-run --path --energy --together"
    ),
    "tune": "bench -d/--device -a/--axis --budget --timeout --seed -o/--output --records --path=own",
    "topology": (
        "path -d/--device --json=as_json --csv=as_csv --md=as_md --latex=as_latex --spaces --classic --budget --timeout --seed "
        "-o/--output --overwrite --wait --wait-quiet"
    ),
    "advise": f"path -d/--device --json=as_json --md=as_md --budget --timeout --seed -o/--output --overwrite {WAITS}",
    "peers": (
        f"path -d/--device --json=as_json --md=as_md --processes --budget --timeout --seed -o/--output --overwrite {WAITS}"
    ),
    "show": (
        f"path {FILTERS} --json=as_json --csv=as_csv --md=as_md --latex=as_latex --parquet --wide --overwrite --strict "
        "--energy --time"
    ),
    "report": f"paths -f/--format=form -o/--output {FILTERS} --beside --baseline --label --overwrite --strict",
    "history": (
        "paths -b/--bench --json=as_json --csv=as_csv --md=as_md --latex=as_latex --figure --wide --overwrite --strict"
    ),
    "import": "path --as=program --label -o/--output --overwrite --json=as_json",
    "infer": "path --explain --record --last-cache -o/--output --overwrite --json=as_json",
    "compare": f"paths {FILTERS} --margin --force --all=everything --wide --json=as_json --live",
    "check": f"path --baseline=against {FILTERS} --wide --junit --overwrite --margin --strict --allow-left-out --force",
    "baseline create": "paths -o/--output --overwrite --force",
    "casestudy mnf": (
        "path -d/--device --json=as_json --csv=as_csv --md=as_md --latex=as_latex --size --processes --budget --timeout "
        "--seed -o/--output --overwrite --wait --wait-quiet"
    ),
    "kernel": (
        "source --kernel=name --global=global_size --local=local_size --arg=arguments --define=defines --from=script "
        "--accesses --budget --on=runs --measure -d/--device --against -o/--output --overwrite --json=as_json --md=as_md"
    ),
    "fleet run": (
        "-o/--output --scheduler --slurm --nodes --slurm-option --local --insecure -d/--device -s/--suite -b/--bench -a/--axis "
        "--matrix --budget --timeout --benchmark-timeout --processes --seed --reference --size --tag --wait-quiet "
        "--tuning=stored --no-tuning --energy --path"
    ),
    "fleet resume": "store --scheduler --slurm --nodes --slurm-option --local --insecure",
    "fleet import": "store files",
    "fleet show": "store --where --sql --json=as_json --csv=as_csv --md=as_md --wide",
    "fleet report": "store -o/--output --overwrite",
    "fleet export": "store --prometheus --junit --run --results --overwrite",
    "model": "",
    "model predict": "hardware profile --json=as_json --md=as_md --latency --scheduling --request --gpumech-dram",
    "model measure": "path -d/--device --budget --timeout --seed -o/--output --overwrite",
    "model validate": (
        "path -d/--device --json=as_json --md=as_md --latex=as_latex --budget --timeout --seed -o/--output --figure --overwrite"
    ),
    "compare --live": (
        "paths --live=measured -d/--device -b/--bench -a/--axis --b-device --b-axis --a-env --b-env --a-kernels "
        "--b-kernels --a-python --b-python --budget --timeout --margin --seed -o/--output --overwrite --json=as_json --path=own"
    ),
}
SHARED = {
    "--device", "--bench", "--axis", "--budget", "--timeout", "--processes", "--seed", "--output", "--overwrite", "--json",
    "--csv", "--md", "--latex", "--margin", "--force", "--suite", "--wide", "--path", "--wait",
    "--wait-quiet",
}  # fmt: skip
OPENINGS = ("Of ", "What ", "Whether ", "The same", "Also what", "To be ")  # that say nothing of what the reader looks for


def commands(command=None, name: str = "") -> Iterator[tuple[str, object]]:
    """Every command and group by name, `compare --live` too."""
    command = command or typer.main.get_command(app)
    yield name, command
    for part, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{name} {part}".strip())
    if not name:
        alone = typer.Typer(add_completion=False)
        alone.command("compare", cls=Command)(live.live)
        yield "compare --live", typer.main.get_command(alone)


COMMANDS = dict(commands())


def written(parameter) -> str:
    if not parameter.opts[0].startswith("-"):
        return parameter.name
    long = max(parameter.opts, key=len)
    own = "" if long[2:].replace("-", "_") == parameter.name else f"={parameter.name}"
    return "/".join(parameter.opts) + own


def help_of(name: str, monkeypatch, columns: int) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = CliRunner().invoke(app, [*name.split(), "--help"])
    assert done.exit_code == 0
    return done.stdout


@each("name", COMMANDS)
def test_names_short_forms_and_environment_variables_of_options_stay(name):
    assert " ".join(written(p) for p in COMMANDS[name].params if p.name != "help") == OPTIONS.get(name, "")


def test_no_command_is_left_out():
    groups = {"baseline", "casestudy", "fleet"}  # without options
    assert set(COMMANDS) == set(OPTIONS) | groups


def test_an_option_of_several_commands_is_defined_in_one_place():
    places: dict[str, list[str]] = {}
    for path in (*PACKAGE.glob("cli/**/*.py"), *PACKAGE.glob("studies/*/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Option"):
                for arg in node.args:
                    if isinstance(arg, ast.Constant) and str(arg.value).startswith("--"):
                        places.setdefault(arg.value, []).append(path.name)
    assert {option: places[option] for option in SHARED} == {option: ["options.py"] for option in SHARED}
    several = {option: found for option, found in places.items() if len(found) > 1}
    # two meanings, or two ways into one command
    assert several == {option: several[option] for option in ("--strict", "--live", "--energy", "--local")}


@each("option", sorted(SHARED - {"--output", "--processes"}))
def test_an_option_has_one_form_in_all_its_commands(option):
    found = [p for command in COMMANDS.values() for p in command.params if option in p.opts]
    assert len(found) > 1
    assert len({(tuple(p.opts), p.metavar) for p in found}) == 1


@each("columns", [80, 100])
@each("name", COMMANDS)
def test_help_fits_its_terminal_and_says_everything(name, columns, monkeypatch):
    lines = help_of(name, monkeypatch, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert not any(
        "..." in line.removesuffix(" [ARGS]...") for line in lines if not re.match(r"Usage: |.*(=\.\.\.|--b-\.\.\.)", line)
    )
    words = "".join("".join(lines).split())
    for parameter in COMMANDS[name].params:
        if getattr(parameter, "help", None) and not getattr(parameter, "hidden", False):
            assert "".join(parameter.help.split()) in words


@each("name", COMMANDS)
def test_help_texts_are_sentences_that_begin_with_what_the_reader_looks_for(name):
    command = COMMANDS[name]
    texts = [command.help or "", *(p.help for p in command.params if getattr(p, "help", None))]
    assert all(
        text.rstrip().endswith((".", "quick")) and text.startswith((*ascii_uppercase, "html", "quick")) for text in texts
    )
    assert not any(sentence.startswith(OPENINGS) for text in texts for sentence in re.split(r"(?<=[.;:]) ", text))


@each("name", [name for name in OPTIONS if name])
def test_help_says_how_the_environment_sets_an_option(name, monkeypatch):
    text = " ".join(help_of(name, monkeypatch, 100).split())
    options = [o[2:] for p in COMMANDS[name].params for o in p.opts if o.startswith("--") and p.name != "help"]
    if options:
        prefix = f"CLMEMBENCH_{name.removesuffix(' --live').upper().replace(' ', '_')}_"
        found = re.search(rf"named after options set their defaults, such as {prefix}([A-Z_]+) for --([a-z-]+)\.$", text)
        assert found and found[1].lower().replace("_", "-") == found[2] and found[2] in options


@each("name", [name for name in OPTIONS if name])
def test_the_variable_of_an_option_is_named_after_it_and_its_old_name_works(name, monkeypatch):
    """The old one is named after the parameter of the function."""
    prefix = f"CLMEMBENCH_{name.removesuffix(' --live').upper().replace(' ', '_')}"
    command, kind = COMMANDS[name], typer.Context
    context = kind(command, info_name=name, auto_envvar_prefix=prefix, resilient_parsing=True)
    command.parse_args(context, [])
    for parameter in command.params:
        if parameter.opts[0].startswith("-") and parameter.name != "help":
            new = max(parameter.opts, key=len)[2:].upper().replace("-", "_")
            for variable in (new, parameter.name.upper()):
                with monkeypatch.context() as patch:
                    patch.setenv(f"{prefix}_{variable}", "set")
                    assert parameter.resolve_envvar_value(context) == "set", variable


def test_square_brackets_of_a_help_text_are_shown(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "op=[triad,copy]" in help_of("run", monkeypatch, 100)


@each(("flags", "said"), [(("--json", "--csv"), "--json, --csv, --md and --latex"), (("--md", "--latex"), "--json")])
@each("command", ["show", "topology", "casestudy mnf"])
def test_two_output_formats_are_refused_before_the_file_is_read(command, flags, said):
    done = CliRunner().invoke(app, [*command.split(), "missing.jsonl", *flags])
    assert done.exit_code == 2 and f"choose one of {said}" in done.stderr and "missing" not in done.stderr
