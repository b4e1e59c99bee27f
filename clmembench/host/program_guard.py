"""Runs another program and ends it, with all that it has started, when the process that asked for it ends, however it ends.

It is started in a process group of its own with a pipe on its standard input, which nobody writes to: its end is the end of the
process that holds the other one. Its exit code is the program's, or 128 and the signal that ended that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """Run the command and wait for it; its exit code, or 127 where it cannot be run."""
    threading.Thread(target=_end_with_asker, daemon=True).start()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)  # what was passed to this one is for it
    except OSError as error:
        print(f"{type(error).__name__}: {error.strerror}", file=sys.stderr)
        return 127
    code = process.wait()
    return code if code >= 0 else 128 - code


def _end_with_asker() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
