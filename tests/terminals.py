"""Commands on a terminal of so many columns: a pseudo-terminal that records what is written to it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Recording:
    """How a command on a terminal ended, and everything that the terminal got."""

    returncode: int
    written: str

    @property
    def text(self) -> str:
        """What was written, without terminal codes."""
        return CODES.sub("", self.written).replace("\r\n", "\n")

    @property
    def colours(self) -> set[str]:
        """The terminal codes that change colour or weight of letters."""
        return {code for code in CODES.findall(self.written) if code.endswith("m")} - {"\x1b[0m"}


def on_terminal(
    *args: str, columns: int = 80, folder: Path | None = None, interrupt_at: Path | None = None, **environment: str
) -> Recording:
    """Run a command with standard output and standard error on a terminal, and with these variables besides this process's. It
    gets Ctrl-C's signal once there is a file `interrupt_at`."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    started = subprocess.Popen(
        [sys.executable, "-m", "clmembench", *args], stdin=far, stdout=far, stderr=far, cwd=folder,
        env={**plain, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **environment}, start_new_session=True,
    )  # fmt: skip
    os.close(far)
    written = b""
    while True:
        if interrupt_at is not None:
            ready, _, _ = select.select([near], [], [], 0.05)
            if interrupt_at.exists():
                started.send_signal(signal.SIGINT)
                interrupt_at = None
            if not ready:
                continue
        try:
            part = os.read(near, 1 << 16)
        except OSError:  # the terminal has no writer any more
            break
        if not part:
            break
        written += part
    os.close(near)
    return Recording(started.wait(), written.decode())
