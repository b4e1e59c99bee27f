"""Commands and groups that the environment cannot make print their help in the place of their work."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose --help has no environment variable."""

    def get_help_option(self, ctx: Any) -> Any:
        return _asked_only(super().get_help_option(ctx))


class Group(TyperGroup):
    """The same for a group of commands."""

    def get_help_option(self, ctx: Any) -> Any:
        return _asked_only(super().get_help_option(ctx))


def _asked_only(option: Any) -> Any:
    if option is not None:
        option.allow_from_autoenv = False
    return option
