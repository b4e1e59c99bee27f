"""`--wait` and `--wait-quiet`: wait for a device's lock, and for other programs to leave alone what is measured."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from clmembench.cli import exit_codes
from clmembench.units import format_duration, parse_seconds

if TYPE_CHECKING:
    from clmembench.model import DeviceInfo

FOREVER = "forever"  # how long --wait waits where it is given without a duration
LOCK_STEP_S = 0.5  # between two tries to take a device's lock


class Waits(NamedTuple):
    """How many seconds a run waits for the device's lock, and for a quiet host; 0: not at all."""

    lock_s: float = 0.0
    quiet_s: float = 0.0


def parse(lock: str | None, quiet: str | None) -> Waits:
    """How long to wait, by --wait and --wait-quiet. Raises ValueError for what is no duration."""
    lock_s = math.inf if lock == FOREVER else parse_seconds(lock, "--wait") if lock else 0.0
    return Waits(lock_s, parse_seconds(quiet, "--wait-quiet") if quiet else 0.0)


def with_wait(args: list[str]) -> list[str]:
    """The arguments with a duration behind each --wait that has none."""
    found = []
    for at, word in enumerate(args):
        found.append(word)
        if word == "--wait" and not re.match(r"-?\.?[0-9]", "".join(args[at + 1 : at + 2])):
            found.append(FOREVER)
    return found


@contextmanager
def locked(info: DeviceInfo, wait_s: float) -> Iterator[None]:
    """Hold the device's lock, after waiting for it so many seconds at most. Raises HeldError where another run still has it."""
    from clmembench.host import device_lock

    end = time.monotonic() + wait_s
    told = False
    with ExitStack() as stack:
        while True:
            try:
                without = stack.enter_context(device_lock.held(info))
                break
            except device_lock.HeldError as error:
                if not wait_s or (told and time.monotonic() >= end) or isinstance(error, device_lock.NoLockError):
                    raise
                if not told:
                    limit = "" if wait_s == math.inf else f" for {format_duration(wait_s)} at most"
                    exit_codes.say(f"{error}; --wait waits for it{limit}")
                    told = True
            time.sleep(min(LOCK_STEP_S, max(0.0, end - time.monotonic())))
        if without:
            exit_codes.say(f"warning: {without}")
        yield


def warn_of_others(info: DeviceInfo, quiet_s: float) -> None:
    """Say which CPUs the process may not use, and what other programs use of what is to be measured, after waiting so many
    seconds at most until they do not."""
    from clmembench.host import checks, environment, quiet

    for complaint in checks.cpu_limits(environment.cpus()) if info.kind == "cpu" else ():
        exit_codes.say(f"warning: {complaint}")

    found = quiet.look(info).complaints(info.kind)
    if found and quiet_s:
        exit_codes.say(f"{' and '.join(found)}: --wait-quiet waits for {format_duration(quiet_s)} at most until they do not")
        found = quiet.wait(info, quiet_s)
    for use in found:
        remedy = "stop them" if quiet_s else "stop them, or use --wait-quiet 5m"
        exit_codes.say(f"warning: {use}, which makes values slower and suspect: {remedy}")
