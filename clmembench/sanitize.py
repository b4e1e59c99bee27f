"""Text and files from strangers, made harmless: how text is shown, and how files are opened and parsed."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO, TextIO

MAX_LINE_CHARACTERS = 2000  # letters of one line on a terminal: no honest one is longer, and one of a megabyte hides all others
FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # what a spreadsheet takes for a formula's start, full width too

_MARKDOWN = re.compile(r"[\\|`<*\[\]!~$&]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)
_ALIKE = {
    "\u2013": "-", "\u2026": "...", "\xb7": "-", "\xb5": "u", "\u03bc": "u", "\xd7": "x", "\xb1": "+-", "\u2265": ">=",
    "\u2264": "<=", "\u2212": "-", "\u2500": "-", "\u2502": "|", "\u250c": "+", "\u2510": "+", "\u2514": "+", "\u2518": "+",
    "\u2534": "+", "\u252c": "+", "\u2587": "#",
}  # fmt: skip
_BLOCK = re.compile(r"\s*(?:[#>]|[-+=](?=[-+=\s]|$)|[0-9]+(?=[.)](?:\s|$)))")  # what at a line's start is no longer text
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    # after a row's end these would be an argument of it
    "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip


def write_anywhere(stream: TextIO) -> None:
    """Have a stream write letters that its encoding lacks, as on a terminal of ASCII or Latin-1, by others: ours by ones that
    look alike, those of files and drivers as ?."""
    codecs.register_error("clmembench", _alike)
    reconfigure = getattr(stream, "reconfigure", None)  # of a stream that a program put in the place of its own there is none
    if reconfigure is not None:
        reconfigure(errors="clmembench")


def _alike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ALIKE.get(c, "?") for c in error.object[error.start : error.end]), error.end


def printable(text: str, instead: str = "?") -> str:
    """Text without control, bidirectional, invisible or other unprintable characters, half of a character pair among them."""
    return text if text.isprintable() else "".join(c if c.isprintable() else instead for c in text)


def line(text: str, most: int = MAX_LINE_CHARACTERS) -> str:
    """One line for a terminal: printable, and cut where it is longer than any honest one."""
    shown = printable(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def markdown(text: str) -> str:
    """Text that stays text in a Markdown paragraph, heading, list or table: no markup, no HTML, no formula and no link."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", printable(text, " ").strip())
    start = _BLOCK.match(escaped)
    if start is None:
        return escaped
    at = start.end() - (not start[0][-1].isdigit())  # of a numbered item it is the dot that makes one
    return f"{escaped[:at]}\\{escaped[at:]}"


def latex(text: str) -> str:
    """Text that stays text in LaTeX, in a table too."""
    return "".join(_LATEX.get(c, c) for c in printable(text))


def csv_cell(value: object) -> object:
    """A cell of a CSV file. A spreadsheet would run one that starts like a formula: it gets an apostrophe before it."""
    if not isinstance(value, str):
        return value
    return "'" * value.startswith(FORMULA_STARTS) + printable(value)


MAX_DOTTED_KEY_PARTS = (
    16  # of a dotted key in TOML: a sheet's have three, and a reader's time grows with the square of their number
)

# texts and comments, in which dots are no parts; one without an end is the parser's to refuse
_TEXTS = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?|' + r"'''(?:[^']++|'(?!''))*+(?:''')?|"
    r'"(?:[^"\\\n]++|\\.)*+"?|' + r"'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_DOTTED = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_DOTTED_KEY_PARTS}}}")


def open_regular(path: Path) -> BinaryIO:
    """A regular file to read. Raises OSError where it cannot be read or is a pipe or a device, on which a reader would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        _check_regular(descriptor)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a regular file. Raises OSError as `open_regular`, and ValueError where it has over `most` bytes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"over {most} bytes")
    return content


def open_new(path: Path, overwrite: bool = False, pipe: bool = True, truncate: bool = True) -> TextIO:
    """A file to write UTF-8 into. Raises OSError: FileExistsError where there is one and it is not to be overwritten; for a
    pipe that nobody reads, on which a writer would wait; without `pipe` for any, which cannot be read again. Without `truncate`
    what stands in an overwritten file is still there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | (os.O_EXCL if not overwrite else os.O_TRUNC if truncate else 0), 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe that nobody reads", str(path)) from error
        raise
    try:
        if not pipe and stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe", str(path))
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "w", encoding="utf-8")
    except BaseException:
        os.close(descriptor)
        raise


def _check_regular(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file")


def sync(path: Path) -> None:
    """Have the system write a folder's entries to its disk, so that a new file's name outlives a power cut. No error where a
    file system cannot."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def parse_toml(content: bytes) -> dict[str, Any]:
    """The content of a TOML file. Raises ValueError for what is none, and for a dotted key of over PARTS parts; RecursionError
    for one that is nested too deeply."""
    text = content.decode()
    long = _DOTTED.search(_TEXTS.sub("s", text))
    if long is not None:
        raise ValueError(f"a key of over {MAX_DOTTED_KEY_PARTS} parts, {long[0][:40]}...")
    return tomllib.loads(text)
