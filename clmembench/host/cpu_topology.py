"""Where threads go on a host's CPUs: sockets, nodes, cores and hardware threads, and the order in which threads fill them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clmembench import units

PLACEMENTS = ("compact", "scatter", "balanced")
MAX_CPUS = 1 << 16  # a list in sysfs that goes beyond is damaged


@dataclass(frozen=True, slots=True)
class HardwareThread:
    """One CPU as the operating system numbers it, and its place: the socket, the core there, and which thread of that core; and
    the NUMA node that the system says it is of."""

    cpu: int
    socket: int
    core: int
    thread: int
    node: int = 0


def read(root: Path = Path("/sys/devices/system/cpu"), usable: Collection[int] | None = None) -> tuple[HardwareThread, ...]:
    """The hardware threads that this process may use, by place. Sockets, cores and threads are numbered among these.

    `usable` is the process's own affinity unless given; CPUs that are offline are left out. Where sysfs does not say, or
    contradicts itself, it is one socket with a core for each CPU. Raises nothing.
    """
    wanted = usable_cpus() if usable is None else set(usable)
    online = _online(root)
    cpus = sorted(wanted & online if online else wanted)
    try:
        placed = _placed({cpu: _said(root / f"cpu{cpu}" / "topology", cpu) for cpu in cpus})
        return tuple(replace(thread, node=_node(root / f"cpu{thread.cpu}")) for thread in placed)
    except (OSError, ValueError):
        return tuple(HardwareThread(cpu, 0, core, 0) for core, cpu in enumerate(cpus))


def cpus(topology: Sequence[HardwareThread], count: int, placement: str) -> tuple[int, ...]:
    """The CPUs of threads 0 to count - 1, in that order.

    compact fills a core, then the next core, then the next socket. scatter goes from socket to socket with each thread, to a
    free core there, and to second hardware threads only when every core has a thread. balanced takes the places that scatter
    takes and puts neighbouring threads side by side. After Razzaq et al. 2016, section V-C and figure 1.
    Raises ValueError for a placement of another name, and for a count below 1 or above the number of hardware threads.
    """
    if placement not in PLACEMENTS:
        raise ValueError(f"{placement!r} is no placement: choose from {', '.join(PLACEMENTS)}")
    if not 1 <= count <= len(topology):
        raise ValueError(f"{count} threads: this host has places for 1 to {len(topology)}")
    chosen = (_scattered(topology) if placement != "compact" else sorted(topology, key=_place))[:count]
    return tuple(t.cpu for t in (sorted(chosen, key=_place) if placement == "balanced" else chosen))


def placements(topology: Sequence[HardwareThread], count: int) -> tuple[str, ...]:
    """The placements that differ in effect at that count; of two that do not, the first. Raises ValueError as `cpus` does."""
    names: dict[tuple[int, ...], str] = {}
    for placement in PLACEMENTS:
        names.setdefault(cpus(topology, count, placement), placement)
    return tuple(names.values())


def sockets_in_order(topology: Sequence[HardwareThread], chosen: Sequence[int]) -> tuple[int, ...]:
    """The socket of each of these CPUs. Threads on the same CPUs in another order share caches and memory with other neighbours
    where these differ."""
    where = {t.cpu: t.socket for t in topology}
    return tuple(where[cpu] for cpu in chosen)


def _place(t: HardwareThread) -> tuple[int, int, int]:
    return t.socket, t.core, t.thread


def _scattered(topology: Sequence[HardwareThread]) -> list[HardwareThread]:
    """All of them in scatter's order: every core's first thread before any core's second, each to the socket with the fewest
    so far. With equal sockets that is going round them; with unequal ones it stays as even as they allow."""
    cores: defaultdict[tuple[int, int], list[HardwareThread]] = defaultdict(list)
    for t in sorted(topology, key=_place):
        cores[t.socket, t.core].append(t)
    order: list[HardwareThread] = []
    load: Counter[int] = Counter()
    for layer in range(max((len(threads) for threads in cores.values()), default=0)):
        waiting: defaultdict[int, list[HardwareThread]] = defaultdict(list)
        for (socket, _), threads in reversed(cores.items()):  # the first core last: they are taken from the end
            waiting[socket] += threads[layer : layer + 1]
        while any(waiting.values()):
            socket = min((s for s, threads in waiting.items() if threads), key=lambda s: (load[s], s))
            order.append(waiting[socket].pop())
            load[socket] += 1
    return order


# ---- sysfs ----------------------------------------------------------------------------------------------------------

_Said = tuple[int, int, tuple[int, ...]]  # of one CPU: package, core_id, and the CPUs that share its core


def usable_cpus() -> set[int]:
    """The CPUs that this process may use; all of them where the system has no such notion."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def last_caches(cpus: Collection[int], root: Path = Path("/sys/devices/system/cpu")) -> dict[int, tuple[int, ...]]:
    """For each of these CPUs the CPUs that share its largest cache level; CPUs of which sysfs does not say are left out."""
    found: dict[int, tuple[int, ...]] = {}
    for cpu in cpus:
        try:
            folders = [f for f in (root / f"cpu{cpu}" / "cache").glob("index*") if (f / "level").is_file()]
            last = max(folders, key=lambda folder: int((folder / "level").read_text(encoding="ascii")))
            found[cpu] = listed((last / "shared_cpu_list").read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return found


def core_cache_bytes(cpus: Collection[int] | None = None, root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of the second cache over the cores that share it, of the first of these CPUs (of the process's own unless given); 0
    where sysfs does not say."""
    folder = root / f"cpu{min(usable_cpus() if cpus is None else cpus)}"
    try:
        second = next(f for f in (folder / "cache").glob("index*") if (f / "level").read_text(encoding="ascii").strip() == "2")
        size, shared, core = (
            path.read_text(encoding="ascii").strip()
            for path in (second / "size", second / "shared_cpu_list", folder / "topology" / "thread_siblings_list")
        )
        return units.parse_bytes(size) * len(listed(core)) // max(len(listed(core)), len(listed(shared)))
    except (OSError, ValueError, StopIteration):
        return 0


def _online(root: Path) -> set[int]:
    """The CPUs that are online; empty where that is not said."""
    try:
        return set(listed((root / "online").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return set()


def listed(text: str) -> tuple[int, ...]:
    """The numbers of a list such as 0-3,8. Raises ValueError for anything else."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < MAX_CPUS:
            raise ValueError(f"{part!r} is no range of CPUs")
        numbers.update(range(low, high + 1))
    return tuple(sorted(numbers))


def _node(folder: Path) -> int:
    """The NUMA node whose link a CPU's folder has; 0 where it has none, as without NUMA."""
    found = [int(link.name[4:]) for link in folder.glob("node*") if link.name[4:].isdecimal()]
    return found[0] if len(found) == 1 else 0


def _said(folder: Path, cpu: int) -> _Said:
    """Topology of one CPU by sysfs. Raises OSError or ValueError where it is missing or impossible."""
    package, core, siblings = (
        (folder / name).read_text(encoding="ascii") for name in ("physical_package_id", "core_id", "thread_siblings_list")
    )
    shared = listed(siblings)
    if cpu not in shared:
        raise ValueError(f"CPU {cpu} is not among those that share its core")
    return int(package), int(core), shared


def _placed(said: dict[int, _Said]) -> tuple[HardwareThread, ...]:
    """The places of CPUs. A core is known by the CPUs that share it: core_id repeats in each socket, and on some in each die.

    Raises ValueError where CPUs that share a core do not say the same of it.
    """
    cores: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # of each package: core_id and the first CPU
    for cpu, (package, core, shared) in sorted(said.items()):
        here = [other for other in shared if other in said]
        if any(said[other] != said[cpu] for other in here):
            raise ValueError(f"the CPUs {here} do not agree that they share a core")
        if cpu == here[0]:
            cores[package].append((core, cpu))
    return tuple(
        HardwareThread(cpu, socket, core, thread)
        for socket, package in enumerate(sorted(cores))
        for core, (_, first) in enumerate(sorted(cores[package]))
        for thread, cpu in enumerate(other for other in said[first][2] if other in said)
    )
