"""Commands and groups with one help format, which the environment cannot trigger in the place of their work."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

FOREVER = "forever"  # how long --wait waits where it is given without a duration


class Command(TyperCommand):
    """A command whose --help has no environment variable, and ends with how the environment sets its options. Its --wait, if it
    has one, may stand without a duration."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after --wait got the duration that it lacks."""
        return super().parse_args(ctx, with_wait(args) if any(p.name == "wait" for p in self.params) else args)

    def get_help_option(self, ctx: Any) -> Any:
        return _without_environment(super().get_help_option(ctx))

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
    """A group whose --help has no environment variable."""

    def get_help_option(self, ctx: Any) -> Any:
        return _without_environment(super().get_help_option(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:
            parameter.show_envvar = False  # type: ignore[attr-defined]  # nobody sets them there
        super().format_options(ctx, formatter)


def with_wait(args: list[str]) -> list[str]:
    """The arguments with a duration behind each --wait that has none."""
    from clmembench import units

    found = []
    for at, word in enumerate(args):
        found.append(word)
        if word == "--wait":
            try:
                units.parse_seconds(args[at + 1])
            except (IndexError, ValueError):
                found.append(FOREVER)
    return found


def _without_environment(option: Any) -> Any:
    if option is not None:
        option.allow_from_autoenv = False
    return option


def _environment(prefix: str | None, parameters: Any) -> str:
    """How the environment sets defaults of options: by one example, and the endings of names that do not follow from it."""
    names = {max(p.opts, key=len): p.name for p in parameters if p.name != "help" and any(o.startswith("--") for o in p.opts)}
    if not prefix or not names:
        return ""
    others = {option: name for option, name in names.items() if option[2:].replace("-", "_") != name}
    option, name = next(((o, n) for o, n in names.items() if o not in others), next(iter(names.items())))
    text = f"Environment variables set defaults, such as {prefix}_{name.upper()} for {option}"
    endings = ", ".join(f"{n.upper()} ({o})" for o, n in others.items() if o != option)
    return f"{text}; other endings: {endings}." if endings else f"{text}."
