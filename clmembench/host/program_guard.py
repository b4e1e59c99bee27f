"""Runs another program and ends it, with all that it has started, when the process that asked for it ends, however it ends.

It is started in a process group of its own with one end of a socket pair as its standard input. Nobody writes to the other end,
which the process that asks holds: its end is that process's end. When the program has ended, this process writes its exit code
there, or 128 and the signal that ended it, and kills its own group: what the program has left running ends with it even if the
process that asked is killed at that moment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading

ASKER = 0  # the descriptor of the socket


def main(command: list[str]) -> None:
    """Run the command, say its exit code, or 127 where it cannot be run, and end with everything that it started."""
    threading.Thread(target=_end_with_asker, daemon=True).start()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)  # what was passed to this one is for it
        code = process.wait()
    except OSError as error:
        print(f"{type(error).__name__}: {error.strerror}", file=sys.stderr, flush=True)
        code = 127
    with contextlib.suppress(OSError):  # the process that asked may have ended just now
        os.write(ASKER, str(code if code >= 0 else 128 - code).encode())
    os.killpg(0, signal.SIGKILL)


def _end_with_asker() -> None:
    with contextlib.suppress(OSError):
        while os.read(ASKER, 1):
            pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
