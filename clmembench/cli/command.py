"""Commands and groups with one help format, which the environment cannot trigger in the place of their work.

Environment variables that are named after options set them. Words that stand alone are refused with the option that takes them,
and options that contradict each other before anything is read or measured.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from typer.core import TyperCommand, TyperGroup

from clmembench.cli import exit_codes, waiting
from clmembench.sanitize import argument, is_file


class Command(TyperCommand):
    """A command whose --help has no environment variable, and ends with how the environment sets its options. Its --wait, if it
    has one, may stand without a duration."""

    def get_help_option(self, ctx: Any) -> Any:
        return _without_environment(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options. Ends the command where words are left over, or options contradict each other."""
        for parameter in self.params:
            if parameter.name is not None and ctx.auto_envvar_prefix and _long(parameter):
                _name_variable(parameter, ctx.auto_envvar_prefix)
        ctx.allow_extra_args = True  # what is left over is refused below, with a remedy
        args = waiting.with_wait(args) if any(p.name == "wait" for p in self.params) else args
        if not ctx.resilient_parsing:
            self._refuse_twice(ctx, args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            if ctx.args:
                exit_codes.stop(_left_over(self, ctx.args), exit_codes.USAGE)
            _refuse_names(ctx.params)
            exit_codes.refuse(ctx)
        return rest

    def _refuse_twice(self, ctx: Any, args: list[str]) -> None:
        """End the command where an option that has one value is given several times: the last would win unseen."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for parameter in dict.fromkeys(order):
            times = order.count(parameter)
            if (
                times > 1
                and not parameter.multiple
                and not getattr(parameter, "is_flag", True)
                and parameter.opts[0].startswith("-")
            ):
                several = ", or -d all, gpu or cpu for several devices" if _takes_several_devices(parameter) else ""
                exit_codes.stop(f"{parameter.opts[-1]} is given {times} times: give it once{several}", exit_codes.USAGE)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        from clmembench.cli import completion

        found = super().shell_complete(ctx, incomplete)
        words = completion.split_axis(ctx, incomplete)
        if words is None or incomplete.startswith("-"):
            return found
        return [_Word(word) for word in words]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            parameter.show_envvar = False  # type: ignore[attr-defined]  # a line for all of them stands below
        super().format_options(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        text = _environment(ctx.auto_envvar_prefix, self.params)
        if text:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(text)


class Group(TyperGroup):
    """A group whose --help has no environment variable, which lists its commands where none is named, and which knows what a
    word that is no command may be."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self.no_args_is_help = True
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        return _without_environment(super().get_help_option(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is named. Ends the program with a remedy where it is none but a benchmark, a suite or a file."""
        if ctx.parent is None and not ctx.resilient_parsing and not args[0].startswith("-") and args[0] not in self.commands:
            from clmembench.plan import selection

            if not selection.near(args[0], self.commands) and (remedy := _remedy(args[0])):
                exit_codes.stop(f"no command {args[0]!r}: {remedy}", exit_codes.USAGE)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            parameter.show_envvar = False  # type: ignore[attr-defined]  # nobody sets them there
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings, all in columns of one width."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in named if command is not None and not command.hidden]
        width = max((len(name) for name, _ in shown), default=0)
        limit = formatter.width - 6 - width
        for heading in dict.fromkeys(_heading(command) for _, command in shown):
            with formatter.section(heading or "Commands"):
                mine = [(name.ljust(width), command) for name, command in shown if _heading(command) == heading]
                formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in mine])


def _heading(command: Any) -> str:
    """The heading of a command in the help of its group, "" where it has none of its own."""
    heading = getattr(command, "rich_help_panel", "")
    return heading if isinstance(heading, str) else ""


def _refuse_names(values: Mapping[str, Any]) -> None:
    """Ends the command for the first path that the system cannot even look up, as one of a name that is too long: functions
    that ask whether there is such a file raise for it."""
    for value in values.values():
        for path in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(path, Path):
                continue
            try:
                path.exists()
            except OSError as error:
                remedy = "shorten it" if error.errno == errno.ENAMETOOLONG else "name another file"
                exit_codes.stop(f"{str(path)[:80]}: {error.strerror}: {remedy}", exit_codes.USAGE)


class _Word(NamedTuple):
    """A word that a shell offers, with the fields of Click's items, which Typer does not export."""

    value: str
    type: str = "plain"
    help: str | None = None


def _takes_several_devices(parameter: Any) -> bool:
    """Whether it is `run`'s --device."""
    return parameter.name == "device" and "name several" in (parameter.help or "")


def _left_over(command: Any, words: list[str]) -> str:
    """What to say of words that are no values of options."""
    first = str(words[0])
    argument = next((p for p in command.params if not p.opts[0].startswith("-") and not p.hidden), None)
    if argument is not None:
        name = argument.metavar or argument.name.upper()
        several = "; clmembench report and compare take several" if name == "RUN" else ""
        return f"{command.name} takes one {name}, and {first!r} is another: leave it out{several}"
    options = {option for parameter in command.params for option in parameter.opts}
    remedy = _remedy(first, options) or f"see clmembench {command.name} --help"
    return f"{command.name} does not take {first!r} without an option: {remedy}"


def _remedy(word: str, options: set[str] | None = None) -> str:
    """How to say what a word that stands alone may mean: with these options of a command, or with `run` before them."""
    from clmembench.plan import selection
    from clmembench.results import run_files

    run = "" if options is not None else "clmembench run "
    if word.endswith(run_files.SUFFIXES) or is_file(word):
        return f"to read a results file, use clmembench show {argument(word)}"
    if options is not None and "-d" in options and word.isdecimal():
        return f"did you mean -d {word}?"
    if options is not None and "-a" in options and "=" in word:
        return f"did you mean -a {word}?"
    if options is not None and not {"-b", "-s"} <= options:
        return ""
    return selection.benchmark_or_suite(word, selection.suites(), run)


def _without_environment(option: Any) -> Any:
    if option is not None:
        option.allow_from_autoenv = False
    return option


def _long(parameter: Any) -> str:
    """The long form of an option without its dashes, as variables are named after it; "" for an argument."""
    return next((name[2:].replace("-", "_") for name in parameter.opts if name.startswith("--")), "")


def _name_variable(parameter: Any, prefix: str) -> None:
    """Name an option's variable after the option. The one named after the parameter, as it was
    before, still works."""
    if parameter.envvar is None and getattr(parameter, "allow_from_autoenv", False) and parameter.name != _long(parameter):
        parameter.envvar = f"{prefix}_{_long(parameter).upper()}"


def _environment(prefix: str | None, parameters: Any) -> str:
    """How the environment sets defaults of options: by one example."""
    options = [name for p in parameters if p.name != "help" and not getattr(p, "hidden", False) and (name := _long(p))]
    if not prefix or not options:
        return ""
    shown = options[0].replace("_", "-")
    return f"Environment variables named after options set their defaults, such as {prefix}_{options[0].upper()} for --{shown}."
