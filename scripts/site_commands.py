"""The reference of the command line, generated from the commands: every argument, option, variable and exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scripts.site_markdown import code, plain, table

VARIANTS = {("compare",): ("--live",)}  # commands that become another one by an option
EXIT_CODES = {
    "OK": "success",
    "INTERNAL": "internal error, such as a full disk",
    "USAGE": "usage error",
    "NO_DEVICE": "no device, or another run has locked it",
    "FAILED": "a benchmark failed, timed out or computed a wrong result",
    "REGRESSION": "a value is slower than the baseline",
    "INCONCLUSIVE": "a check cannot decide; with `--strict`, values are suspect, undecided or missing",
    "INTERRUPTED": "interrupted; the results file holds every record up to that point",
}


def page() -> str:
    """The page: a section for each command, in the order of `clmembench --help`, then exit codes."""
    from clmembench.cli import exit_codes

    parts = [
        "# Commands",
        "Generated from the commands of this version; `--help` of each has the same. Data go to standard output, messages and "
        "progress to standard error. The variable of an option sets its default.",
        *(_section(words, context) for words, context in contexts()),
        "## Exit codes",
        table(("code", "meaning"), [(str(getattr(exit_codes, name)), said) for name, said in EXIT_CODES.items()]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def contexts() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words, as a context that nothing was given to."""
    from typer.main import get_command

    from clmembench.cli.program import app

    yield from _contexts(get_command(app), (), None)


def _contexts(command: Any, words: tuple[str, ...], parent: Any) -> Iterator[tuple[str, Any]]:
    prefix = {"auto_envvar_prefix": "CLMEMBENCH"} if parent is None else {}
    name = words[-1] if words else "clmembench"
    context = command.make_context(name, [], parent, resilient_parsing=True, **prefix)
    inner = getattr(command, "commands", {})
    if not inner:
        yield " ".join(words), context
    for part, one in inner.items():
        yield from _contexts(one, (*words, part), context)
    if words in VARIANTS:
        variant = VARIANTS[words]
        yield " ".join((*words, *variant)), command.make_context(name, list(variant), parent, resilient_parsing=True)


def _section(words: str, context: Any) -> str:
    command = context.command
    shown = [parameter for parameter in command.params if parameter.name != "help" and not getattr(parameter, "hidden", False)]
    arguments = [_cells(parameter, context) for parameter in shown if parameter.param_type_name == "argument"]
    options = [_cells(parameter, context) for parameter in shown if parameter.param_type_name == "option"]
    usage = " ".join(("clmembench", *words.split(), *command.collect_usage_pieces(context)))
    parts = [f"## {words}", plain(command.help or ""), f"```text\n{usage}\n```"]
    if arguments:
        parts.append(table(("argument", "meaning"), [row[:2] for row in arguments]))
    if options:
        parts.append(table(("option", "meaning", "variable"), options))
    return "\n\n".join(parts)


def _cells(parameter: Any, context: Any) -> Sequence[str]:
    parameter.show_envvar = False  # it has a column of its own
    record = parameter.get_help_record(context)
    name, said = record if record else (parameter.name, parameter.help or "")
    from_environment = getattr(parameter, "allow_from_autoenv", True) and context.auto_envvar_prefix
    return code(name), plain(said), code(f"{context.auto_envvar_prefix}_{parameter.name.upper()}") if from_environment else ""
