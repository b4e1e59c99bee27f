"""Checks of a host and a device before measuring: facts in, complaints with advice out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clmembench.model import DeviceInfo, Fact
from clmembench.model.work import fact_number

SLOW_GOVERNORS = ("powersave", "ondemand", "conservative", "schedutil")
# NVML's clocks event reasons that lower a clock; being idle and a clock that the user set do not
THROTTLES = {
    0x4: "its power limit",
    0x8: "a hardware slowdown",
    0x20: "its temperature (software limit)",
    0x40: "its temperature (hardware limit)",
    0x80: "the power supply's brake",
}


@dataclass(frozen=True, slots=True)
class HostThresholds:
    """Thresholds beyond which a host or a device is complained of."""

    max_load_per_cpu: float = 0.5  # more leaves too few idle CPUs for what is measured
    max_steal_share: float = 0.02  # of the CPU time: more is seen in the spread of samples
    max_utilisation_percent: float = 5  # of a device before anything is measured: an idle one shows less
    max_temperature_c: float = 85  # from about here on clocks are lowered


LIMITS = HostThresholds()


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that makes numbers weaker than they look, its remedy, and some detail. One that `lasts` is the same in every
    run on a host, such as that it is a virtual machine."""

    what: str
    remedy: str = ""
    detail: str = ""
    lasts: bool = False

    def __str__(self) -> str:
        whole = f"{self.what} ({self.detail})" if self.detail else self.what
        return f"{whole}: {self.remedy}" if self.remedy else whole


def complaints(device: DeviceInfo, host: Mapping[str, Fact], sensors: Mapping[str, Fact]) -> list[Complaint]:
    """Complaints about measuring this device now, by the facts of `environment.host` and `sensors.read`.

    A fact that is not known says nothing.
    """
    found = [*_of_cpus(host), *_of_its_clock(sensors)] if device.kind == "cpu" else list(_of_a_gpu(device, sensors))
    if host.get("virtual") and device.kind == "cpu":
        found.append(
            Complaint(
                "this is a virtual machine",
                "believe ratios taken in one run rather than absolute figures, and use --processes 6",
                "its topology, caches and clock may not be the hardware's, and neighbours share it",
                lasts=True,
            )
        )
    if "fp64" not in device.features:
        found.append(Complaint("the device has no fp64", "points in double are skipped: nothing to be done"))
    return found


def clock_locking(device: DeviceInfo, host: Mapping[str, Fact], sensors: Mapping[str, Fact]) -> list[str]:
    """How the device's clock is fixed while runs are compared, and let go afterwards: commands to type, none of which is
    run."""
    if device.kind == "cpu":
        if host.get("governor") is None:
            return ["this system lets no program set the CPUs' clock; measure in several processes (--processes 6)"]
        top = fact_number(sensors, "clock_max_mhz")
        clock = f"{top:.0f}MHz" if top else "CLOCK"
        return [
            f"to fix it: sudo cpupower frequency-set -g performance -d {clock} -u {clock} (steadier: a clock below turbo)",
            f"to let it go: sudo cpupower frequency-set -g {host['governor']} -d MIN -u MAX, the limits of frequency-info",
        ]
    if "nvidia" not in device.vendor.lower():
        return ["see its vendor's tool, such as amd-smi or intel_gpu_frequency, for how its clock is fixed"]
    which, top = f" -i {device.pci}" if device.pci else "", fact_number(sensors, "sm_clock_max_mhz")
    clock = f"{top:.0f}" if top else "MHZ"
    return [
        f"to fix it: sudo nvidia-smi{which} -lgc {clock},{clock} (lower, where power or temperature lower it under load)",
        f"to let it go: sudo nvidia-smi{which} -rgc; `nvidia-smi{which} -q -d SUPPORTED_CLOCKS` lists the clocks",
    ]


def _of_cpus(host: Mapping[str, Fact]) -> Iterator[Complaint]:
    load, cpus, usable = fact_number(host, "load_1min"), fact_number(host, "logical_cpus"), fact_number(host, "usable_cpus")
    if load is not None and cpus and load > LIMITS.max_load_per_cpu * cpus:
        yield Complaint(f"the host's load is {load:g} on {cpus:g} CPUs", "stop other programs")
    stolen = fact_number(host, "steal")
    if stolen is not None and stolen > LIMITS.max_steal_share:
        yield Complaint(
            f"other virtual machines took {stolen:.0%} of the CPU time", "measure at a quieter time, and use --processes 6"
        )
    yield from cpu_limits(host)
    governor = host.get("governor")
    if governor in SLOW_GOVERNORS:
        yield Complaint(f"the frequency governor is {governor}", "sudo cpupower frequency-set -g performance")
    cores = fact_number(host, "cores")
    if cores and usable and cores < usable:
        yield Complaint(
            f"{usable:g} CPUs are hardware threads of {cores:g} cores",
            f"-a compute_units={cores:g} -a placement=scatter measures with one thread a core",
        )


def cpu_limits(host: Mapping[str, Fact]) -> Iterator[Complaint]:
    """Complaints about control groups and CPU sets that leave a CPU's driver fewer CPUs than the host has."""
    cpus, usable, limit = (fact_number(host, name) for name in ("logical_cpus", "usable_cpus", "cpu_limit"))
    if limit is not None and usable and limit < usable:
        yield Complaint(
            f"a control group limits this process to {limit:g} of {usable:g} CPUs",
            "raise the container's CPU limit, or measure on fewer with -a compute_units",
        )
    if usable and cpus and usable < cpus:
        yield Complaint(
            f"only {usable:g} of {cpus:g} CPUs may be used",
            f"start without taskset, or in a larger CPU set, or measure on fewer with -a compute_units={usable:g}",
        )


def _of_its_clock(sensors: Mapping[str, Fact]) -> Iterator[Complaint]:
    throttled, hot = fact_number(sensors, "throttled_since_boot"), fact_number(sensors, "temperature_c")
    if throttled:
        yield Complaint(f"the CPU was throttled {throttled:g} times since boot", "cool it: its clock falls under load")
    if hot is not None and hot > LIMITS.max_temperature_c:
        yield Complaint(f"the CPU is at {hot:g} degrees", "let it cool down: its clock will fall")
    if sensors.get("turbo") is True:
        yield Complaint(
            "turbo is on, so that the clock depends on what neighbouring cores do",
            "turn it off to compare runs, leave it on for the most the CPU can do",
        )


def _of_a_gpu(device: DeviceInfo, sensors: Mapping[str, Fact]) -> Iterator[Complaint]:
    if not sensors:
        if "nvidia" in device.vendor.lower():
            yield Complaint(
                "clocks, temperature and throttling are not known", "pip install 'clmembench[nvidia]' to have them kept"
            )
        return
    reasons = sensors.get("throttle_reasons")
    if isinstance(reasons, int):
        for bit, why in THROTTLES.items():
            if reasons & bit:
                yield Complaint(f"the device's clock is lowered by {why}", "cool it, or raise the limit, before measuring")
    used = fact_number(sensors, "utilisation_percent")
    if used is not None and used > LIMITS.max_utilisation_percent:
        yield Complaint(f"the device was {used:g}% busy before anything was measured", "stop the other programs that use it")
    hot = fact_number(sensors, "temperature_c")
    if hot is not None and hot > LIMITS.max_temperature_c:
        yield Complaint(f"the device is at {hot:g} degrees", "let it cool down: its clock will fall")
    for name, what in (("generation", "its link runs at generation {} of {}"), ("width", "its link has {} of {} lanes")):
        now, most = fact_number(sensors, f"link_{name}"), fact_number(sensors, f"link_{name}_max")
        if now is not None and most is not None and now < most:
            yield Complaint(
                what.format(f"{now:g}", f"{most:g}"),
                "an idle one may wake up under load; if transfers stay slow, see slot, riser and BIOS",
            )
    if sensors.get("ecc") is False:
        yield Complaint("ECC is off", "say so beside the numbers: bandwidth is up to some percent higher than with it")
