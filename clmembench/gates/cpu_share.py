"""Whether a value had the CPUs that it needed: what its threads waited for, and who had them meanwhile. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from clmembench.analysis.derive import Derived, key_of, summarise
from clmembench.gates.lines import Key
from clmembench.gates.thresholds import RUN
from clmembench.model import Fact, Header, Record, Run
from clmembench.model.metrics import score
from clmembench.model.work import fact_number

QUIETEN = "quieten the host, and measure it again"


def shortage(value: Derived, header: Header) -> str:
    """Why a value lacked CPUs, and the remedy, without numbers, which differ between points; "" where it did not, or nothing
    says so.

    Threads that waited for a CPU took longer by that much at most, whatever the kernel. Waking a thread takes time too, so
    somebody else must have had the CPU. Where the system does not count waits, CPU time over time says on how many units the
    work ran. Both hold the host's threads alone: a GPU's own clock does not count what those wait for.
    """
    host, on_cpu = header.host, header.device.kind == "cpu"
    if not on_cpu and value.clock == "device":
        return ""
    cpus = fact_number(host, "logical_cpus") or 1.0
    if value.stolen > RUN.max_wait_share:
        return "other virtual machines took the CPUs: measure at a quieter time"
    units = (value.place.compute_units or header.device.compute_units) if on_cpu else 1
    few = few_units(value) if on_cpu else ""
    missing = 1 - (value.cpu_over_wall or 0.0) / value.busy if few else 0.0
    waited = missing if value.waited is None else value.waited
    if waited > RUN.max_wait_share:
        by_others = _is_by_others(waited, value.others * cpus)
        others = f"its threads waited for CPUs that other programs used: {STOP}" if by_others else ""
        why = _limit(host, units) or others or (f"{few}: {QUIETEN}" if few else "")
        if why:
            return why
    usable, quota = (fact_number(host, name) or cpus for name in ("usable_cpus", "cpu_limit"))
    if value.busy > min(usable, quota) or (value.clock != "device" and usable < units):
        return _limit(host, units)
    if on_cpu and value.waited is not None and value.others > RUN.max_others_share:
        return f"other programs used the CPUs, and with them caches and memory: {STOP}"
    return ""


MAX_GUESSED_WAIT = 0.95  # what waited longer tells nothing of the speed without waits
STOP = "stop them, or use --wait-quiet 5m"


def is_disturbed(record: Record, on_cpu: bool, cpus: int) -> bool:
    """Whether other programs or other guests took the CPUs from a record, so that it is worth measuring again without them."""
    if not on_cpu and all(series.clock == "device" for series in record.series):
        return False
    waited, others, stolen = (share or 0.0 for share in (record.cpu_waited, record.cpu_others, record.cpu_stolen))
    by_others = waited > RUN.max_wait_share and _is_by_others(waited, others * cpus)
    by_others |= on_cpu and others > RUN.max_others_share
    return by_others or stolen > RUN.max_wait_share


def disturbed_trials(run: Run) -> dict[Key, list[Record]]:
    """The trials of each point's search from which others took the CPUs."""
    on_cpu, cpus = run.header.device.kind == "cpu", int(fact_number(run.header.host, "logical_cpus") or 1)
    found: dict[Key, list[Record]] = defaultdict(list)
    for record in run.records:
        if record.role == "tune" and record.benchmark in run.header.benchmarks and is_disturbed(record, on_cpu, cpus):
            found[_plain(key_of(record), run.header)].append(record)
    return found


def better_configuration(value: Derived, trials: Mapping[Key, Sequence[Record]], header: Header) -> str:
    """Why another configuration may be better than the one that was measured: its trial lacked CPUs; "" where none may be."""
    metric = next((m for m in header.benchmarks[value.benchmark].metrics if m.name == value.metric), None)
    for trial in trials.get(_plain(value.key, header), ()) if metric is not None and value.median else ():
        found = summarise([trial], metric) if metric is not None else None
        waited = min(MAX_GUESSED_WAIT, trial.cpu_waited or 0.0)
        possible = score(found.median, value.better) / (1 - waited) if found is not None else 0.0
        if possible * (1 - RUN.max_wait_share) > score(value.median or 0.0, value.better):
            return f"another configuration may be better, whose trial waited for CPUs that other programs used: {STOP}"
    return ""


def _plain(key: Key, header: Header) -> Key:
    """The key of a point without its configuration."""
    benchmark, params, place = key
    tuning = header.benchmarks[str(benchmark)].tuning
    return benchmark, tuple(pair for pair in params if pair[0] not in tuning), place  # type: ignore[attr-defined]


def possible_gain(value: Derived) -> float:
    """How many times better a value that lacked CPUs may be with them."""
    waited = max(RUN.max_wait_share, min(MAX_GUESSED_WAIT, value.waited or 0.0))
    return max(1 / (1 - waited), value.busy / max(value.cpu_over_wall or 0.0, 1 - MAX_GUESSED_WAIT))


def few_units(value: Derived) -> str:
    """The number of units at work where fewer than expected were; "" where it is unknown, or waking threads explains it."""
    used, busy = value.cpu_over_wall, value.busy
    waking = RUN.wake_ns * busy / value.pass_ns if value.pass_ns > 0 else 0.0
    if used is None or not busy or used >= RUN.min_units_used * busy * (1 - min(1.0, waking)):
        return ""
    return f"{used:.2f} of {busy} compute unit{'s' if busy != 1 else ''} were used"


def _is_by_others(waited: float, others_cpus: float) -> bool:
    """Whether others ran for about as long as a thread waited. They may have begun while the point was made ready."""
    return others_cpus >= RUN.min_blamed_share * waited


def _limit(host: Mapping[str, Fact], units: int) -> str:
    """What leaves the process fewer CPUs than the driver has threads, and the remedy; "" where nothing does."""
    usable, quota, cpus = (fact_number(host, name) for name in ("usable_cpus", "cpu_limit", "logical_cpus"))
    if usable and usable < units:
        return (
            f"the process may use {usable:g} of the {units} CPUs that the driver runs on: "
            f"start it without taskset or in a larger CPU set, or measure on fewer, -a compute_units={usable:g}"
        )
    if quota and quota < min(number for number in (usable, cpus, units + 1.0) if number):
        fewer = f", or measure on fewer, -a compute_units={quota // 1:g}" if 1 <= quota < units else ""
        cpus_left = f"{quota:g} CPU{'s' if quota != 1 else ''}"
        return f"a control group limits the process to {cpus_left}: raise the container's CPU limit{fewer}"
    return ""
