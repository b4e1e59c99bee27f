"""Sensors beside points, energy counters, and the energy of a point's work, on simulated counters whose truth is known."""

from __future__ import annotations

import html
import json
import random
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from clmembench.analysis.energy import energy_of
from clmembench.cli import devices
from clmembench.cli.running.run_request import Request
from clmembench.host import point_sensors
from clmembench.host.checks import clock_locking
from clmembench.host.point_sensors import Counted, PointSensors, Sensors, open_sensors
from clmembench.measure import sampling
from clmembench.measure.job import Job, job_line, parse_job
from clmembench.model import Context, EnergyReading, Launch, Metric, Overlap, Slope, Work
from clmembench.plan.budget import Budget
from clmembench.report.figures.history_chart import MAX_BUCKETS, thinned
from clmembench.report.run_warnings import _throttled
from clmembench.report.sections import energy_tables
from clmembench.results import jsonl, limits
from clmembench.results.jsonl import decode_record, encode
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice, FakeKernel
from tests.builders import BANDWIDTH, STREAM, device, header, record, run, series, write_run
from tests.cases import each
from tests.commands import brief_points, cli

FLOPS = Metric("performance", "GFLOP/s", "flops", "rate", "higher")
OPS = Metric("cost", "ns", "ops", "cost", "lower")
CPU, GPU = device(kind="cpu"), device(vendor="NVIDIA Corporation", pci="0000:c1:00.0")
BRIEF = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4)


def write(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("RAPL", "class/powercap/intel-rapl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def package(root, number: int, microjoules: int, driver: str = "intel-rapl") -> None:
    folder = root / "class" / "powercap" / f"{driver}:{number}"
    for name, text in (("name", f"package-{number}"), ("energy_uj", microjoules), ("max_energy_range_uj", 1_000_000)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")


def test_rapl_counts_a_package_once_and_over_its_end(tmp_path):
    package(tmp_path, 0, 900_000)
    package(tmp_path, 0, 900_000, driver="intel-rapl-mmio")  # the same counter once more
    part = tmp_path / "class/powercap/intel-rapl:0:0"
    part.mkdir()
    (part / "name").write_text("core\n")
    sensors = PointSensors(open_sensors(CPU, tmp_path))
    before = sensors.count()
    package(tmp_path, 0, 150_000)
    assert sensors.joules(before, sensors.count()) == pytest.approx(0.25)
    assert sensors.sensors.shared and sensors.sensors.source == "RAPL, the whole package"


def test_rapl_adds_packages_each_of_which_begins_again_at_its_own_time(tmp_path):
    package(tmp_path, 0, 900_000)
    package(tmp_path, 1, 100_000)
    sensors = PointSensors(open_sensors(CPU, tmp_path))
    before = sensors.count()
    package(tmp_path, 0, 150_000)
    package(tmp_path, 1, 300_000)
    assert sensors.joules(before, sensors.count()) == pytest.approx(0.45)


def test_a_counter_that_is_missing_or_not_readable_says_so(tmp_path):
    assert "no RAPL counter" in open_sensors(CPU, tmp_path).reason
    package(tmp_path, 0, 1)
    (tmp_path / "class/powercap/intel-rapl:0/energy_uj").write_text("")  # as one that only root may read gives nothing
    found = open_sensors(CPU, tmp_path)
    assert found.microjoules is None and "sudo chmod a+r" in found.reason
    assert "PCI address" in open_sensors(device(), tmp_path).reason


def test_the_sensors_of_a_cpu_are_its_clock_temperature_and_throttling(tmp_path, monkeypatch):
    monkeypatch.setattr("clmembench.host.cpu_topology.usable_cpus", lambda: {0, 1, 2})
    for number, khz in enumerate((1_000_000, 3_000_000, 2_500_000)):
        write(tmp_path, **{f"devices/system/cpu/cpu{number}/cpufreq/scaling_cur_freq": khz})
    write(tmp_path, **{"devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": 7})
    write(tmp_path, **{"class/thermal/thermal_zone0/temp": 45_000, "class/thermal/thermal_zone1/temp": 71_000})
    assert open_sensors(CPU, tmp_path).facts() == {"clock_mhz": 2500.0, "temperature_c": 71.0, "throttled_since_boot": 7}


def test_a_driver_with_a_counter_in_hwmon_has_its_energy(tmp_path):
    info = device(pci="0000:c1:00.0", vendor="Other")
    assert "hwmon" in open_sensors(info, tmp_path).reason
    folder = "bus/pci/devices/0000:c1:00.0/hwmon/hwmon3/"
    write(tmp_path, **{f"{folder}temp1_input": 60_000, f"{folder}power1_average": 125_000_000})
    found = open_sensors(info, tmp_path)
    assert found.microjoules is None and found.facts() == {"temperature_c": 60.0, "power_w": 125.0}
    write(tmp_path, **{f"{folder}energy1_input": 5_000_000})
    assert open_sensors(info, tmp_path).microjoules() == 5_000_000


class NVMLError(Exception):
    """As NVML's own."""


def nvml(**changes):
    """A library that knows one board, of 300 W, which does not tell its memory's clock."""

    def refuse(*_):
        raise NVMLError("Not Supported")

    known = {
        "NVMLError": NVMLError, "NVML_CLOCK_SM": 1, "NVML_CLOCK_MEM": 2, "NVML_TEMPERATURE_GPU": 0, "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByPciBusId": lambda pci: pci if pci == b"0000:c1:00.0" else refuse(),
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1980 if kind == 1 else refuse(),
        "nvmlDeviceGetPowerUsage": lambda handle: 300_000, "nvmlDeviceGetTemperature": lambda handle, kind: 55,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 4,
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 123_456,
    }  # fmt: skip
    return SimpleNamespace(**(known | dict.fromkeys(changes, refuse)))


def test_nvml_gives_clock_power_temperature_throttling_and_energy(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml())
    found = open_sensors(GPU)
    assert found.facts() == {"sm_clock_mhz": 1980, "power_w": 300.0, "temperature_c": 55, "throttle_reasons": 4}
    assert found.microjoules() == 123_456_000 and not found.shared
    assert found.update_ns == point_sensors.NVML_UPDATE_NS


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("nvmlInit", "NVML does not know the device: Not Supported"),
        ("nvmlDeviceGetHandleByPciBusId", "NVML does not know the device"),
        ("nvmlDeviceGetTotalEnergyConsumption", "NVML does not count this device's energy: Not Supported"),
    ],
)
def test_what_nvml_does_not_know_is_the_reason(monkeypatch, missing, reason):
    monkeypatch.setitem(sys.modules, "pynvml", nvml(**{missing: None}))
    found = open_sensors(GPU)
    assert found.microjoules is None and found.reason.startswith(reason)


def test_without_the_library_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert open_sensors(GPU).reason == point_sensors.NO_NVML


def test_sensors_are_read_five_times_a_second_at_most():
    now = [0.0]
    sensors = PointSensors(Sensors(lambda: {"power_w": now[0]}), clock=lambda: now[0])
    found = []
    for now[0] in (0.0, 0.1, 0.19, 0.25, 0.4, 0.5):
        found.append(sensors.sample())
    assert found == [{"power_w": 0.0}, {}, {}, {"power_w": 0.25}, {}, {"power_w": 0.5}]


def launch(units: int = 0) -> Launch:
    return Launch(FakeKernel("k"), (units,), (1,), (1,))


def counting(update_ns: int = 1) -> tuple[PointSensors, list[int]]:
    """Sensors whose counter tells how often it was read: a joule more each time."""
    reads: list[int] = []

    def microjoules() -> int:
        reads.append(1)
        return 1_000_000 * len(reads)

    return PointSensors(Sensors(lambda: {"power_w": 5}, microjoules, "test", update_ns)), reads


def test_the_counter_is_read_before_the_first_sample_and_after_the_last():
    sensors, reads = counting()
    at = []
    fake = FakeDevice(script=lambda commands, passes: at.append(len(reads)) or 1000 * passes)
    found = sampling.sample_point(fake, Work((launch(),), nbytes=64, flops=2), BRIEF, 1, sensors)
    (sampled,) = found.series
    total = len(sampled.host_ns) * sampled.passes
    energy = found.context.energy
    assert (energy.joules, energy.nbytes, energy.flops, energy.ops) == (1.0, 64 * total, 2 * total, 0)
    assert set(at[-len(sampled.host_ns) :]) == {1} and set(at[: -len(sampled.host_ns)]) == {0}
    assert found.context.before == {"power_w": 5} and len(reads) == 2


def test_a_slope_has_the_work_of_both_its_ends():
    sensors, _ = counting()
    slope = Slope(lambda n: Work((launch(n),), ops=n), start=100, most=300)
    found = sampling.sample_point(FakeDevice(), slope, BRIEF, 1, sensors)
    assert found.context.energy.ops == sum(len(end.host_ns) * end.passes * end.ops for end in found.series)


def test_a_trial_is_not_watched_and_works_at_once_have_no_energy_of_their_own():
    sensors, reads = counting()
    work = Work((launch(),), nbytes=64)
    assert sampling.sample_point(FakeDevice(), work, replace(BRIEF, trial=True), 1, sensors).context is None and not reads
    both = Overlap(replace(work, clock="host"), lambda n: replace(work, clock="host"))
    found = sampling.sample_point(FakeDevice(), both, BRIEF, 1, sensors)
    assert found.context.energy is None and "at once" in found.context.no_energy
    assert sampling.sample_point(FakeDevice(), work, BRIEF, 1).context is None


@pytest.mark.parametrize("wanted", [False, True])
def test_passes_go_on_for_the_counter_where_the_user_says_so(wanted):
    """Where nobody does, the counter is not read beside samples that are too short for it: reading it takes as long as some."""
    sensors, reads = counting(update_ns=400_000)  # 20 of which are 8 ms
    fake = FakeDevice()
    work = Work((launch(),), nbytes=64)
    budget = replace(BRIEF, max_time_s=0.0, energy=wanted)
    found = sampling.sample_point(fake, work, budget, 1, sensors)
    energy, samples = found.context.energy, found.series[0]
    assert bool(reads) == wanted == (energy is not None)
    if energy is None:
        assert "0.008 s" in found.context.no_energy and "--energy" in found.context.no_energy
    else:
        assert energy.window_ns >= 8_000_000
        assert energy.nbytes > 64 * len(samples.host_ns) * samples.passes  # none of these passes is a sample
    assert all(passes <= 10_000 for passes, _ in fake.timed)


def test_a_job_says_that_energy_is_wanted_only_where_it_is():
    """So that a worker process of an older version can read it."""
    plain, wanted = Job("fake", FAKE_DEVICE_INFO), Job("fake", FAKE_DEVICE_INFO, budget=Budget(energy=True))
    assert "energy" not in job_line(plain) and parse_job(json.loads(job_line(wanted))) == wanted


def reading(**changes) -> EnergyReading:
    """600 J from 2 s of 2.5 s, in which 1000 GB, 4000 GFLOP and 10^9 operations were done."""
    plain = EnergyReading("test", 600.0, 2_500_000_000, 100_000_000, 2_500_000_000, 10**12, 4 * 10**12, 10**9)
    return replace(plain, **changes)


def with_energy(found: EnergyReading | None, **changes):
    times = series([1000] * 16, nbytes=1000, flops=4000)
    return record(
        "stream",
        changes.pop("params", None),
        times,
        context=Context(energy=found, no_energy="" if found else "none"),
        **changes,
    )


@pytest.mark.parametrize(
    ("metric", "unit", "better", "value"),
    [(BANDWIDTH, "J/GB", "lower", 0.6), (FLOPS, "GFLOP/s/W", "higher", 4000 / 600), (OPS, "nJ/op", "lower", 600.0)],
)
def test_energy_is_of_what_the_metric_counts(metric, unit, better, value):
    found = energy_of([with_energy(reading())], metric)
    assert (found.status, found.unit, found.better, found.watts) == ("ok", unit, better, pytest.approx(240))
    assert found.value == pytest.approx(value) and found.low < found.value < found.high
    assert found.high / found.low == pytest.approx(1.04 / 0.96)


@each(
    ("changes", "of_record", "says"),
    [
        (
            {"window_ns": 1_900_000_000, "busy_ns": 1_900_000_000},
            {},
            "less than the 2 s that the counter, updated every 100 ms, needs",
        ),
        ({"busy_ns": 2_000_000_000}, {}, "worked for 80% of the time"),
        ({"joules": 0.0}, {}, "did not move"),
        ({"joules": 1e6}, {}, "4e+05 W, which no device takes"),
        ({"nbytes": 0}, {}, "states none of this amount"),
        ({"shared": True}, {"cpu_others": 0.3}, "other processes used 30% of the CPUs"),
        ({}, {"status": "suspect"}, "the point is suspect"),
    ],
)
def test_what_a_counter_cannot_tell_is_undetermined(changes, of_record, says):
    found = energy_of([with_energy(reading(**changes), **of_record)], BANDWIDTH)
    assert found.status == "undetermined" and found.value is None and says in found.reason


def test_the_load_of_others_matters_to_a_counter_of_the_host_only():
    assert energy_of([with_energy(reading(), cpu_others=0.3)], BANDWIDTH).status == "ok"
    assert energy_of([with_energy(reading(shared=True), cpu_others=0.01)], BANDWIDTH).status == "ok"


def test_processes_widen_the_interval():
    one, other = with_energy(reading()), with_energy(reading(joules=660.0), process=1)
    alone, both = energy_of([one], BANDWIDTH), energy_of([one, other, with_energy(None, process=2)], BANDWIDTH)
    assert both.low == alone.low and both.high > alone.high and both.status == "ok"
    assert energy_of([with_energy(None)], BANDWIDTH).reason == "none"
    assert "no energy counter" in energy_of([record("stream", None, series([1] * 16, nbytes=1))], BANDWIDTH).reason


def test_the_interval_covers_the_truth_of_simulated_counters():
    """A device takes one power at work and less while it waits; its counter steps at any phase of its updates."""
    chosen = random.Random(4)
    for _ in range(2000):
        work_w, wait_w = chosen.uniform(50, 700), chosen.uniform(10, 50)
        update, seconds, duty = chosen.uniform(0.02, 0.1), chosen.uniform(2.0, 4.0), chosen.uniform(0.9, 1.0)
        start, phase = chosen.uniform(0, 1), chosen.uniform(0, update)
        mean_w = duty * work_w + (1 - duty) * wait_w  # many passes, with short waits between them

        def counter(at: float, update: float = update, phase: float = phase, mean_w: float = mean_w) -> float:
            return ((at - phase) // update * update + phase) * mean_w

        joules = counter(start + seconds) - counter(start)
        ns = round(seconds * 1e9)
        made = EnergyReading("test", joules, ns, 100_000_000, round(duty * ns), nbytes=10**12)
        found = energy_of([with_energy(made)], BANDWIDTH)
        truth = work_w * duty * seconds / 1000  # J a GB of the work alone
        assert found.status == "ok" and found.low <= truth <= found.high


def test_a_context_is_stored_and_a_made_up_one_is_refused():
    made = with_energy(reading())
    made = replace(made, context=replace(made.context, before={"power_w": 300.5}, after={"sm_clock_mhz": 1980, "x": None}))
    assert decode_record(encode(made)) == made
    for context in (Context(energy=reading(joules=1e12)), Context(before={"x": float("inf")}), Context(energy=reading(ops=-1))):
        with pytest.raises(ValueError, match="context"):
            limits.check_record(replace(made, context=context))


@pytest.fixture
def stored(tmp_path) -> str:
    """A run of three points: with energy, without, and in a moment that was too short; the device was throttled once."""
    path = tmp_path / "r.jsonl"
    cards = {"stream": replace(STREAM, metrics=(BANDWIDTH, FLOPS))}
    with jsonl.Writer(path, header(device(), cards=cards)) as writer:
        for number, found in enumerate((reading(), None, reading(window_ns=10**8, busy_ns=10**8))):
            one = with_energy(found, params={"op": ("copy", "scale", "add")[number]}, index=number, seconds=2.0)
            one = replace(one, started=f"2026-01-01T00:0{number}:00.000+00:00")
            facts = {"power_w": 100.0 + number, "sm_clock_mhz": 1500, "throttle_reasons": 4 * (number == 1)}
            writer.write(replace(one, context=replace(one.context, before=facts, after=facts)))
    return str(path)


def test_show_gives_the_energy_of_each_point(stored):
    shown = cli("show", stored, "--energy").stdout
    assert "J/GB" in shown and "GFLOP/s/W" in shown and "counter: test" in shown and "240 W" in shown
    assert "undetermined [1]" in shown and "[1] none" in shown and "run --energy goes on" in shown
    assert "core clock: 1500 to 1500 MHz over 122 s" in shown and "power: 100 to 102 W" in shown
    rows = json.loads(cli("show", stored, "--json").stdout)
    assert [row["energy_status"] for row in rows] == ["ok", "ok"] + ["undetermined"] * 4
    assert rows[0]["energy"] == pytest.approx(0.6) and rows[0]["energy_unit"] == "J/GB" and rows[2]["energy_reason"] == "none"
    assert "J/GB" in cli("show", stored, "--energy", "--csv").stdout
    summary = cli("show", stored).stdout
    assert energy_tables.TITLE in summary and "lowered by its power limit at 1 point" in summary


def test_a_report_has_energy_and_what_sensors_said_over_time(stored):
    page = cli("report", stored, "-f", "html").stdout
    assert (
        "Energy of each point on" in page
        and html.unescape(page).count("over the run's time") >= 1
        and "minutes since the first point" in page
    )


def test_a_long_curve_keeps_its_dips_and_peaks():
    values = [1500.0] * 5000
    values[1234], values[4321] = 300.0, 2000.0
    seconds, kept = thinned(range(5000), values)
    assert len(kept) <= 2 * MAX_BUCKETS and seconds == sorted(seconds)
    assert (kept[seconds.index(1234)], kept[seconds.index(4321)]) == (300.0, 2000.0)


def test_a_run_without_any_energy_says_why_once(tmp_path):
    whole = run([with_energy(None, params={"op": op}) for op in ("copy", "scale")])
    path = tmp_path / "r.jsonl"
    write_run(path, whole.records, whole.header)
    assert cli("show", str(path), "--energy").stdout == "Energy is undetermined: none.\n"
    assert energy_tables.TITLE not in cli("show", str(path)).stdout
    assert cli("report", str(path), "-f", "html").stdout.count("Energy is undetermined: none.") == 1


def test_a_run_of_an_older_version_has_no_energy(tmp_path):
    path = tmp_path / "r.jsonl"
    write_run(path, [record("stream", None, series([1000] * 16, nbytes=1))], header(device(), cards={"stream": STREAM}))
    done = cli("show", str(path), "--energy")
    assert done.stdout == "Energy is undetermined: no energy counter was read beside the points.\n"
    (row,) = json.loads(cli("show", str(path), "--json").stdout)
    assert row["energy_status"] is None and row["energy"] is None
    assert _throttled(jsonl.read(path)) == []


def test_a_measured_run_keeps_what_sensors_said_of_each_point(tmp_path):
    with brief_points():
        done = cli("run", "-b", "launch", "-a", "groups=1", "-o", "r.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = [r for r in jsonl.read(tmp_path / "r.jsonl").records if r.role == "measure"]
    assert measured and all(r.context is not None and (r.context.energy or r.context.no_energy) for r in measured)


def test_doctor_says_how_to_fix_a_clock_and_let_it_go(monkeypatch):
    gpu = clock_locking(GPU, {}, {"sm_clock_max_mhz": 1980})
    assert "sudo nvidia-smi -i 0000:c1:00.0 -lgc 1980,1980" in gpu[0] and "nvidia-smi -i 0000:c1:00.0 -rgc" in gpu[1]
    cpu = clock_locking(CPU, {"governor": "powersave"}, {"clock_max_mhz": 3600.0})
    assert "cpupower frequency-set -g performance -d 3600MHz -u 3600MHz" in cpu[0] and "-g powersave" in cpu[1]
    assert "no program set the CPUs' clock" in clock_locking(CPU, {"governor": None}, {})[0]
    assert "vendor's tool" in clock_locking(device(), {}, {})[0]
    monkeypatch.setattr(devices, "listed", lambda *_: [FAKE_DEVICE_INFO])
    said = cli("doctor").stdout
    assert "energy: undetermined: the driver does not say" in said and "clock: see its vendor's tool" in said


def test_a_counter_that_begins_again_is_no_negative_energy():
    sensors = PointSensors(Sensors(dict, lambda: 0, wraps_at=1_000_000))
    assert sensors.joules(Counted(900_000, 0), Counted(100_000, 1)) == pytest.approx(0.2)


@pytest.mark.parametrize("wanted", [True, False])
def test_what_the_command_line_says_of_energy_reaches_the_budget_of_a_point(wanted):
    nothing = dict.fromkeys(("suite", "processes", "seed", "size", "stored", "budget", "timeout", "benchmark_timeout"))
    lists = dict.fromkeys(("bench", "axis", "matrix"), ())
    asked = Request(**nothing, **lists, reference=False, no_tuning=True, no_isolate=False, energy=wanted)
    planned = asked.plan(FAKE_DEVICE_INFO)
    assert {planned.selection.budget_in(benchmark, 0).energy for benchmark in planned.chosen} == {wanted}
