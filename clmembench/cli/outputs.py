"""Output of commands: text folded to a terminal, and files that are checked before anything is measured or read."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from clmembench.cli import exit_codes
from clmembench.results.whole_file import write_whole

if TYPE_CHECKING:
    from clmembench.report.table import Document, Table


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


def print_as(
    form: str,
    document: Callable[[], Document],
    data: Callable[[], object] | None = None,
    fields: Callable[[], Table] | None = None,
    wide: bool = False,
) -> None:
    """Print a result in the format that was chosen: `data` as JSON, `fields` as CSV, and the document in the others. Only what
    is printed is computed. A command without --json or --csv has no `data` or `fields`."""
    from clmembench.report import render

    if form == "json" and data is not None:
        print(render.json_text(data()))
    elif form == "csv" and fields is not None:
        print(render.csv_text(fields()), end="")
    elif form == "text":
        print_document(document(), wide)
    else:
        print({"md": render.markdown, "latex": render.latex}[form](document()))


def check(path: Path, overwrite: bool, option: str = "-o", name: str = "run.jsonl", pipe: bool = False) -> None:
    """Ends the command, with a remedy, where no ordinary file of that name can be made; announces a new folder.

    A missing folder is made later, but not one whose own folder is missing, which is more likely a typing error. `name` is an
    example of a file name for the message. A device such as a terminal may be written to, with `pipe` a pipe too. Permission
    to write is checked by `check_writable`.
    """
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            exit_codes.stop(f"{path} is a link to a file that is not there: choose another {option}", exit_codes.USAGE)
        _check_folder(path, option)
        return
    except OSError as error:
        exit_codes.stop(f"cannot write {path}: {error.strerror}: choose another place with {option}", exit_codes.USAGE)
    if stat.S_ISDIR(kind):
        exit_codes.stop(f"{path} is a folder: name a file in it, such as {option} {path / name}", exit_codes.USAGE)
    if overwrite and (stat.S_ISCHR(kind) or (pipe and stat.S_ISFIFO(kind))):
        return
    if not stat.S_ISREG(kind):
        what = "a pipe" if stat.S_ISFIFO(kind) else "a device or socket"
        exit_codes.stop(f"{path} is no ordinary file ({what}): choose another {option}", exit_codes.USAGE)
    if not overwrite:
        exit_codes.stop(f"{path} exists: choose another {option}, or say --overwrite", exit_codes.USAGE)


def in_folder(path: Path, name: str) -> Path:
    """The output that was named; where that is a folder, a file of that name in it."""
    return path / name if path.is_dir() else path


def check_not_input(path: Path, inputs: Iterable[Path], option: str = "-o") -> None:
    """Ends the command where its output would replace one of its inputs."""
    for one in inputs:
        with contextlib.suppress(OSError):
            if one.samefile(path):
                exit_codes.stop(f"{path} is read by this command: choose another {option}", exit_codes.USAGE)


def write(path: Path, content: str | bytes, overwrite: bool, option: str = "-o") -> None:
    """Write a complete file or none, in the new folder that `check` announced, if any. Ends the command where that fails."""
    try:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, content, overwrite)
    except FileExistsError:
        exit_codes.stop(f"{path} exists: choose another {option}, or say --overwrite", exit_codes.USAGE)
    except OSError as error:
        exit_codes.stop(f"cannot write {path}: {error.strerror}: choose another place with {option}", exit_codes.INTERNAL)


def _check_folder(path: Path, option: str) -> None:
    folder = path.parent
    if folder.is_dir():
        return
    if folder.exists() or folder.is_symlink():
        exit_codes.stop(f"cannot write {path}: {folder} is no folder: choose another place with {option}", exit_codes.USAGE)
    if not folder.parent.is_dir():
        exit_codes.stop(
            f"cannot write {path}: there is no folder {folder.parent}: make it, or choose another {option}", exit_codes.USAGE
        )
    try:
        folder.mkdir()  # a trial; the folder is made with the first file
        folder.rmdir()
    except OSError as error:
        exit_codes.stop(f"cannot write {path}: {error.strerror}: choose another place with {option}", exit_codes.INTERNAL)
    exit_codes.say(f"{folder} does not exist: creating the folder")


def check_writable(path: Path, option: str = "-o") -> None:
    """Ends the command where no file can be made in that folder, by a temporary file: for commands that write at their end."""
    if not path.parent.is_dir():
        return
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        exit_codes.stop(f"cannot write {path}: {error.strerror}: choose another place with {option}", exit_codes.INTERNAL)
