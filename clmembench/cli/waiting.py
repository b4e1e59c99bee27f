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
REMINDER_S = 60.0  # between two messages of what is waited for
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


class _Said:
    """What a wait has said: what it waits for, at first, then every REMINDER_S seconds as it is then, and how it ended."""

    def __init__(self, option: str, wait_s: float) -> None:
        self.begun = self._last = time.monotonic()
        self.use = ""
        self._option, self._wait_s = option, wait_s

    def waits(self, use: str) -> None:
        """Say what is waited for, unless it was said a moment ago."""
        now = time.monotonic()
        if not self.use:
            limit = "without limit" if self._wait_s == math.inf else f"for {format_duration(self._wait_s)} at most"
            exit_codes.say(f"{self._option} waits {limit}: {use}")
        elif now - self._last >= REMINDER_S:
            exit_codes.say(f"{self._option} has waited for {format_duration(now - self.begun)}: {use}")
        else:
            return
        self.use, self._last = use, now

    def ends(self, how: str) -> None:
        if self.use:
            exit_codes.say(f"{self._option} waited for {format_duration(time.monotonic() - self.begun)}: {how}")


@contextmanager
def locked(info: DeviceInfo, wait_s: float) -> Iterator[None]:
    """Hold the device's lock, after waiting for it so many seconds at most. Raises HeldError where another run still has it."""
    from clmembench.host import device_lock

    said = _Said("--wait", wait_s)
    end = said.begun + wait_s
    with ExitStack() as stack:
        while True:
            try:
                without = stack.enter_context(device_lock.held(info))
                break
            except device_lock.HeldError as error:
                if not wait_s or (said.use and time.monotonic() >= end) or isinstance(error, device_lock.NoLockError):
                    raise
                said.waits(error.use)
            time.sleep(min(LOCK_STEP_S, max(0.0, end - time.monotonic())))
        said.ends(f"{info.name} is free")
        if without:
            exit_codes.say(f"warning: {without}")
        yield


def warn_of_others(info: DeviceInfo, quiet_s: float) -> None:
    """Say which CPUs the process may not use, and what other programs use of what is to be measured, after waiting so many
    seconds at most until they do not."""
    from clmembench.host import checks, environment
    from clmembench.measure import quiet

    for complaint in checks.cpu_limits(environment.cpus()) if info.kind == "cpu" else ():
        exit_codes.say(f"warning: {complaint}")

    found = quiet.look(info).complaints(info.kind)
    if found and quiet_s:
        said = _Said("--wait-quiet", quiet_s)
        said.waits(" and ".join(found))
        found = quiet.wait(info, quiet_s, lambda uses: said.waits(" and ".join(uses)))
        if not found:
            said.ends("no other program is in the way")
    for use in found:
        remedy = "stop them" if quiet_s else "stop them, or use --wait-quiet 5m"
        exit_codes.say(f"warning: {use}, which makes values slower and suspect: {remedy}")
