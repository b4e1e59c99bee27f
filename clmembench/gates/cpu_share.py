"""Whether a value had the CPUs that it needed: what its threads waited for, and who had them meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from clmembench.analysis.derive import Derived
from clmembench.gates.thresholds import RUN
from clmembench.model import Fact, Header, Record

QUIETEN = "quieten the host, and measure it again"


def shortage(value: Derived, header: Header) -> str:
    """Why a value lacked CPUs, and the remedy; "" where it did not, or nothing says so.

    Threads that waited for a CPU took longer by that much at most, whatever the kernel. Waking a thread takes time too, so
    somebody else must have had the CPU. Where the system does not count waits, CPU time over time says on how many units the
    work ran. Both hold the host's threads alone: a GPU's own clock does not count what those wait for.
    """
    host, on_cpu = header.host, header.device.kind == "cpu"
    if not on_cpu and value.clock == "device":
        return ""
    cpus = _number(host, "logical_cpus") or 1.0
    stolen = _stolen(value.stolen * cpus, value.cpu_over_wall)
    if stolen > RUN.max_wait_share:
        return f"other virtual machines took {stolen:.0%} of its CPU time: measure at a quieter time"
    units = (value.place.compute_units or header.device.compute_units) if on_cpu else 1
    few = few_units(value) if on_cpu else ""
    missing = 1 - (value.cpu_over_wall or 0.0) / value.busy if few else 0.0
    waited = missing if value.waited is None else value.waited
    if waited > RUN.max_wait_share:
        by_others = _is_by_others(waited, value.others * cpus)
        why = _limit(host, units) or (f"other programs used {value.others:.0%} of the CPUs: {STOP}" if by_others else "")
        what = few if value.waited is None or not why else f"a thread waited for a CPU {waited:.0%} of the time"
        return f"{what}: {why or QUIETEN}" if few or why else ""
    usable, quota = (_number(host, name) or cpus for name in ("usable_cpus", "cpu_limit"))
    if value.busy > min(usable, quota) or (value.clock != "device" and usable < units):
        return _limit(host, units)
    if value.others > RUN.max_others_awake and _wakes_threads(value):
        return f"other programs used {value.others:.0%} of the CPUs, which changes how long waking a thread takes: {STOP}"
    return ""


MAX_GUESSED_WAIT = 0.95  # what waited longer tells nothing of the speed without waits
STOP = "stop them, or use --wait-quiet 5m"


def is_disturbed(record: Record, on_cpu: bool, cpus: int) -> bool:
    """Whether other programs or other guests took the CPUs from a record, so that it is worth measuring again without them."""
    if not on_cpu and all(series.clock == "device" for series in record.series):
        return False
    waited, others, stolen = (share or 0.0 for share in (record.cpu_waited, record.cpu_others, record.cpu_stolen))
    by_others = waited > RUN.max_wait_share and _is_by_others(waited, others * cpus)
    return by_others or _stolen(stolen * cpus, None) > RUN.max_wait_share


def possible_gain(value: Derived) -> float:
    """How many times better a value that lacked CPUs may be with them."""
    waited = max(RUN.max_wait_share, min(MAX_GUESSED_WAIT, value.waited or 0.0))
    return max(1 / (1 - waited), value.busy / max(value.cpu_over_wall or 0.0, 1 - MAX_GUESSED_WAIT))


def few_units(value: Derived) -> str:
    """How many units fewer than expected were at work; "" where that is not known, or waking them explains it."""
    used, busy = value.cpu_over_wall, value.busy
    waking = RUN.wake_ns * busy / value.pass_ns if value.pass_ns > 0 else 0.0
    if used is None or not busy or used >= RUN.min_units_used * busy * (1 - min(1.0, waking)):
        return ""
    return f"{busy} compute unit{'s were' if busy != 1 else ' was'} to work and {used:.2f} were used"


def _wakes_threads(value: Derived) -> bool:
    """Whether waking threads is a part of the time that counts: it is shorter where other programs keep the CPUs awake."""
    is_short = value.pass_ns * RUN.max_wait_share < RUN.wake_ns * max(1, value.busy)
    return is_short and (value.clock != "device" or (value.busy > 1 and value.pass_ns > 0))


def _is_by_others(waited: float, others_cpus: float) -> bool:
    """Whether others ran for about as long as a thread waited. They may have begun while the point was made ready."""
    return others_cpus >= RUN.min_blamed_share * waited


def _stolen(stolen_cpus: float, used: float | None) -> float:
    """The share of the units in use that a hypervisor gave to others: CPU time includes it or not, depending on the kernel."""
    return min(1.0, stolen_cpus / max(1.0, used or 0.0))


def _limit(host: Mapping[str, Fact], units: int) -> str:
    """What leaves the process fewer CPUs than the driver has threads, and the remedy; "" where nothing does."""
    usable, quota, cpus = (_number(host, name) for name in ("usable_cpus", "cpu_limit", "logical_cpus"))
    if usable and usable < units:
        return (
            f"the process may use {usable:g} of the {units} CPUs that the driver runs on: "
            f"start it without taskset or in a larger CPU set, or measure on fewer, -a compute_units={usable:g}"
        )
    if quota and quota < min(number for number in (usable, cpus, units + 1.0) if number):
        fewer = f", or measure on fewer, -a compute_units={quota // 1:g}" if 1 <= quota < units else ""
        return f"a control group limits the process to {quota:g} CPUs: raise the container's CPU limit{fewer}"
    return ""


def _number(facts: Mapping[str, Fact], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
