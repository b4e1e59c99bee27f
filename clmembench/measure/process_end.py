"""The end of a process, in words: its exit code or signal, and the line of its output that says why."""

from __future__ import annotations

import re
import signal

from clmembench.host import scarcity

# remarks that follow a cause: notes of compilers and drivers, and frames of a stack
_REMARK = re.compile(r"(note|hint|help|remark|info|warning|please|stack dump|aborted|#?\d+[.: ]|\W*$)", re.IGNORECASE)


def not_started(error: OSError, purpose: str = "") -> str:
    """Why the system starts no process, and the remedy."""
    reason = scarcity.told(error) or f"{error.strerror}: free memory, or space for temporary files"
    return f"no process could be started{' ' if purpose else ''}{purpose}: {reason}"


def describe_end(code: int) -> str:
    """How a process with that return code of `subprocess` ended, to follow its name."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"died of {signal.Signals(-code).name}"
    except ValueError:
        return f"died of signal {-code}"


def last_words(log: str) -> str:
    """What a process printed last, but for remarks behind it, to be put behind a message; "" where it printed nothing."""
    lines = [line.strip() for line in log.strip().splitlines()]
    causes = [line for line in lines if not _REMARK.match(line)]
    return f"; it last said: {(causes or lines)[-1]}" if lines else ""
