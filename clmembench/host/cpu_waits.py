"""How long threads of this process were ready to run and had no CPU, by the scheduler's statistics (schedstat of Linux).

It shows every lack of CPUs alike: other programs, too small a CPU set, a quota. A hypervisor's other guests it does not show.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

WAKE_NS = 20_000  # of each time that a thread began to run: waking takes 9 to 20 us where nothing else runs

Waits = Mapping[str, tuple[int, int]]  # by thread: ns that it was ready and waited, and how often it began to run


def read(tasks: Path = Path("/proc/self/task")) -> Waits | None:
    """The waits of all threads so far; None where the system does not count them."""
    found = {}
    counted = False
    try:
        for task in tasks.iterdir():
            try:
                ran, waited, times = map(int, (task / "schedstat").read_text(encoding="ascii").split())
            except FileNotFoundError:  # the thread has ended, or the kernel was built without the statistics
                continue
            found[task.name] = waited, times
            counted |= ran > 0
    except (OSError, ValueError):
        return None
    return found if counted else None


def longest_share(before: Waits | None, after: Waits | None, wall_ns: int) -> float | None:
    """The largest share of that time for which one thread waited, waking apart: what it lengthened the work by at most."""
    if before is None or after is None or wall_ns <= 0:
        return None
    waited = 0
    for thread, (ns, times) in after.items():
        ns_before, times_before = before.get(thread, (0, 0))
        waited = max(waited, ns - ns_before - WAKE_NS * (times - times_before))
    return round(min(1.0, waited / wall_ns), 3)
