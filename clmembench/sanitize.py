"""Text and files from strangers, made harmless: how text is shown, and how files are opened and parsed."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import shlex
import stat
import tomllib
from pathlib import Path
from typing import Any, BinaryIO, TextIO

MAX_LINE_CHARACTERS = 2000  # letters of one line on a terminal: no honest one is longer, and one of a megabyte hides all others
MAX_WRITER_WAIT_S = 3.0  # for somebody to open a pipe for writing: a shell has done so before this process began
MAX_PIPE_SILENCE_S = 10.0  # between two pieces of what a pipe's writer has: a decompressor or ssh takes a second
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


def argument(path: str | Path) -> str:
    """A file's name as a shell takes it in a command that is copied from a line of ours."""
    return shlex.quote(line(str(path)))


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


def open_input(path: Path, pipe: bool = True) -> io.BufferedReader:
    """A file to read: a regular one or, with `pipe`, a pipe as of `<(zcat FILE)`, whose writer is waited for within limits.

    Every file that a user names is opened here. Raises OSError where it cannot be read, and for a folder, a socket and a
    device, on which a reader would wait or never reach an end.
    """
    _check_readable(Path(path).stat().st_mode, pipe)  # a device may act when it is opened
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        _check_readable(mode, pipe)
        return io.BufferedReader(_Pipe(descriptor)) if stat.S_ISFIFO(mode) else os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_input(path: Path, most: int, pipe: bool = True) -> bytes:
    """The bytes of a file. Raises OSError as `open_input`, and ValueError where it has over `most` bytes."""
    with open_input(path, pipe) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has over {most} bytes, which no file of this kind needs")
    return content


def open_regular(path: Path) -> BinaryIO:
    """As `open_input`, for a file that is read twice or written again, which a pipe is not."""
    return open_input(path, pipe=False)


def read_regular(path: Path, most: int) -> bytes:
    """As `read_input`, for a file that is read twice or written again, which a pipe is not."""
    return read_input(path, most, pipe=False)


def input_problem(error: OSError) -> str:
    """Why a file could not be opened or read, for people, with the remedy where the system's own words name none."""
    remedies = {errno.EISDIR: ": name a file in it", errno.ENOENT: ": check its name", errno.EACCES: ": change its permissions"}
    return f"{error.strerror or error}{remedies.get(error.errno or 0, '')}"


class _Pipe(io.FileIO):
    """A pipe whose reader waits for its writer, but not for ever."""

    def readinto(self, buffer: Any) -> int | None:
        if not self._has_news(MAX_WRITER_WAIT_S):
            found = super().readinto(buffer)
            if found:
                return found
            if found == 0:  # nobody has it open for writing: of a writer that is slow it would be None
                raise OSError(errno.ETIMEDOUT, "it is a pipe that nobody writes: name the file itself")
            if not self._has_news(MAX_PIPE_SILENCE_S - MAX_WRITER_WAIT_S):
                silence = f"it is a pipe through which nothing came for {MAX_PIPE_SILENCE_S:g} s"
                raise OSError(errno.ETIMEDOUT, f"{silence}: write the data into a file, and name that")
        return super().readinto(buffer)

    def _has_news(self, seconds: float) -> bool:
        """Whether data or the writer's end came within that time."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(seconds * 1e3))


def _check_readable(mode: int, pipe: bool) -> None:
    """Raises OSError for what is neither a regular file nor, with `pipe`, a pipe."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode) and not (pipe and stat.S_ISFIFO(mode)):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise OSError(errno.EINVAL, f"it is no regular file but a {kind}: write the data into a file, and name that")


def exists(path: str | Path) -> bool:
    """Whether there is anything of that name; False too for what no file can be called."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for a name that is too long


def is_file(path: str | Path) -> bool:
    """Whether there is a regular file of that name; False too for what no file can be called."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a name that is too long


def open_new(path: Path, overwrite: bool = False, pipe: bool = True, truncate: bool = True) -> io.TextIOWrapper:
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
