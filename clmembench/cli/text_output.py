"""Text on standard output: in colour and folded to the width of a terminal, plain and unfolded elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from clmembench.report.section import Document


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream takes terminal codes for colour: a terminal that is not dumb, unless the user said NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(wide: bool = False) -> int | None:
    """Letters of a line of the terminal on standard output; None, without a limit, elsewhere and where the user wants `wide`
    tables."""
    return None if wide or not sys.stdout.isatty() else shutil.get_terminal_size().columns


def layout(wide: bool = False) -> tuple[int | None, bool]:
    """The width of text on standard output, and whether it is in colour."""
    return width(wide), is_coloured(sys.stdout)


def print_document(document: Document, wide: bool = False) -> None:
    """Print a document on standard output."""
    from clmembench.report import render

    print(render.text(document, is_coloured(sys.stdout), width(wide)))
