"""How much values differ where nothing was changed: what is fitted, what it covers, and what it lets a comparison see."""

from __future__ import annotations

import contextlib
import io
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from clmembench.analysis import noise, stats
from clmembench.analysis.compare import compare, compare_sides
from clmembench.analysis.decision import DEFAULT_MARGIN, FALSE_DISCOVERY_RATE, Side, next_run
from clmembench.analysis.derive import Derived
from clmembench.analysis.noise import Noise, NoiseTable
from clmembench.gates.whole import judged_run
from clmembench.model import Placement
from clmembench.report import frame
from clmembench.results import jsonl
from scripts import calibrate
from tests.builders import STREAM

ROOT = Path(__file__).parents[2]
DIGESTS = sorted((ROOT / "reports" / "calibration").glob("*.csv"))
LARGE_DIGESTS = ("gpu-h200", "virtual_cpu-xeon-2-cores", "virtual_cpu-xeon-32-cores")
TABLE = NoiseTable({"gpu": {"*": Noise(0.02, 6.0, 0.003, 0.05)}}, 8.0, 3.0)


def value(medians, name="v", **changes):
    plain = dict(  # noqa: C408
        benchmark="stream", params={"name": name}, tuning={}, place=Placement(), metric="bandwidth",
        unit="GB/s", better="higher", peak=None, status="ok", reason="", median=float(np.median(medians)), clock="device",
        pass_ns=1e6, nbytes=100,
        medians=tuple(medians), measured_in=tuple(range(len(medians))),
    )  # fmt: skip
    return Derived(**{**plain, **changes})


def simulated(rng, processes, values=40, own=TABLE.kinds["gpu"]["*"], truth=100.0, scale=1.0):
    """A run whose values have a variance of their own each, as the table says, and luck of the whole run on top."""
    found = []
    for index in range(values):
        sd = scale * own.process_sd / math.sqrt(rng.chisquare(own.process_freedom) / own.process_freedom)
        luck = rng.normal(0, own.run_sd)
        found.append(value(list(truth * np.exp(luck + rng.normal(0, sd, processes))), f"v{index}"))
    return found


def changes(a, b, table=TABLE, same=True, margin=DEFAULT_MARGIN, model=""):
    sides = [Side(a, "gpu", "one"), Side(b, "gpu", "one" if same else "other", model=model)]
    return compare_sides(*sides, {"stream": STREAM}, margin, table).changes


@pytest.mark.parametrize("processes", [1, 3, 6])
@pytest.mark.parametrize("run_sd", [0.003, 0.03])
def test_the_interval_of_a_further_run_holds_its_value(processes, run_sd):
    """Whatever differs more, processes or runs; and it is no wider than that."""
    own, rng = Noise(0.02, 6.0, run_sd), np.random.default_rng(3)
    table = NoiseTable({"gpu": {"*": own}}, 8.0, 3.0)
    held = []
    for first, second in zip(simulated(rng, processes, 2000, own), simulated(rng, processes, 2000, own), strict=True):
        side = Side((), "gpu", "one")
        low, high = next_run(side.noisy(first, table), side, table)
        held.append(low <= second.median <= high)
    assert 0.935 <= np.mean(held) <= 0.985


@pytest.mark.parametrize("processes", [1, 3, 6])
def test_of_what_did_not_change_at_most_one_in_a_hundred_is_called(processes):
    rng = np.random.default_rng(1)
    called = Counter(c.verdict for _ in range(30) for c in changes(simulated(rng, processes), simulated(rng, processes)))
    assert called["slower"] + called["faster"] <= 0.01 * called.total(), called


@pytest.mark.parametrize("processes", [3, 6])
def test_intervals_hold_the_truth(processes):
    rng = np.random.default_rng(2)
    found = [c.ratio for _ in range(20) for c in changes(simulated(rng, processes), simulated(rng, processes, truth=130.0))]
    covered = sum(r.low <= 1.3 <= r.high for r in found) / len(found)
    assert 0.93 <= covered <= 0.995


def test_the_smallest_change_is_called_in_about_four_of_five_cases():
    rng, called, asked = np.random.default_rng(3), 0, 0
    for _ in range(400):
        a = simulated(rng, 6, values=1)
        smallest = changes(a, simulated(rng, 6, values=1))[0].smallest
        (found,) = changes(a, simulated(rng, 6, values=1, truth=100.0 / smallest))
        called, asked = called + (found.verdict == "slower"), asked + 1
    assert 0.7 <= called / asked <= 0.97


def test_a_host_quieter_or_noisier_than_those_calibrated_is_seen_in_its_own_processes():
    rng = np.random.default_rng(4)
    for scale in (0.1, 1.0, 5.0):
        factor = noise.host_factor(TABLE, "gpu", simulated(rng, 6, scale=scale))
        assert factor == pytest.approx(scale, rel=0.4)
    assert noise.host_factor(TABLE, "gpu", simulated(rng, 6, values=3)) is None
    assert noise.host_factor(TABLE, "gpu", simulated(rng, 1)) is None
    quiet = [c.smallest for c in changes(simulated(rng, 6, scale=0.05), simulated(rng, 6, scale=0.05))]
    plain = [c.smallest for c in changes(simulated(rng, 6), simulated(rng, 6))]
    # what runs differ by remains, however quiet the processes
    (own,) = TABLE.kinds["gpu"].values()
    between_runs = noise.LogRatio(0.0, math.sqrt(2) * own.run_sd, 2 * TABLE.run_freedom)
    least = between_runs.smallest_change(DEFAULT_MARGIN, FALSE_DISCOVERY_RATE / 2 / len(quiet))
    assert least <= np.median(quiet) < 1.001 * least < 1.02 * least < np.median(plain)


def test_two_devices_of_one_model_may_differ_by_more_than_two_runs_of_one():
    rng = np.random.default_rng(5)
    a, b = simulated(rng, 6), simulated(rng, 6)
    how = ({"same": True}, {"same": False}, {"same": False, "model": "another model"})
    one, two, models = ([math.log(c.ratio.high / c.ratio.low) for c in changes(a, b, **which)] for which in how)
    assert all(x < y for x, y in zip(one, two, strict=True))
    assert models == one  # of these two devices, whatever others of their models do


def test_devices_whose_spread_nobody_calibrated_differ_as_runs_do():
    rng = np.random.default_rng(5)
    a, b = simulated(rng, 6), simulated(rng, 6)
    (of_one,) = TABLE.kinds["gpu"].values()
    as_runs = NoiseTable({"gpu": {"*": Noise(of_one.process_sd, of_one.process_freedom, of_one.run_sd)}}, 8.0, 3.0)
    widths = {
        known: [math.log(c.ratio.high / c.ratio.low) for c in changes(a, b, table, same)]
        for known, table, same in (("same", as_runs, True), ("unknown", as_runs, False), ("known", TABLE, False))
    }
    assert all(x < y < z for x, y, z in zip(*widths.values(), strict=True))


def test_a_class_without_two_devices_of_a_model_takes_the_spread_of_its_durations():
    classes = {"stream/long": Noise(0.1, 4, 0.1), "*/long": Noise(0.2, 4, 0.2, 0.3), "*": Noise(0.3, 4, 0.3, 0.5)}
    found = NoiseTable({"gpu": classes}, 8, 3).of("gpu", value([1.0]))
    assert (found.process_sd, found.device_sd) == (0.1, 0.3)


def test_what_differs_between_models_is_no_noise():
    """Two hosts of one kind, each with a digest of its own, one ten times as fast: no two devices of one model."""
    rng = np.random.default_rng(6)
    runs = {(f"{host} a", run): simulated(rng, 6, truth=truth) for host, truth in (("x", 10.0), ("y", 100.0)) for run in (0, 1)}
    assert {entry.device_sd for entry in calibrate.fit_noise(runs).values()} == {None}
    both = {**runs, **{("x b", run): simulated(rng, 6, truth=11.0) for run in (0, 1)}}
    assert 0.05 < calibrate.fit_noise(both)["*"].device_sd < 0.09  # log(1.1) / sqrt(2)


def test_noise_is_looked_up_from_the_nearest_class_that_is_known():
    known = {"stream/long": Noise(1, 1, 1), "*/long": Noise(2, 1, 1), "*": Noise(3, 1, 1)}
    table = NoiseTable({"gpu": known, "virtual_cpu": {"*": Noise(4, 1, 1)}}, 8, 3)
    assert table.of("gpu", value([1.0])).process_sd == 1
    assert table.of("gpu", value([1.0], benchmark="other")).process_sd == 2
    assert table.of("gpu", value([1.0], pass_ns=1e3)).process_sd == 3
    assert table.of("accelerator", value([1.0])).process_sd == 4
    assert [noise.duration_of(value([1.0], pass_ns=ns)) for ns in (0, 1e3, 1e5, 1e6)] == ["slope", "short", "medium", "long"]
    assert noise.duration_of(value([1.0], clock="host")) == "long-host"


def test_a_ratio_needs_values_above_0():
    for a, b in (([], [1.0]), ([1.0], [0.0])):
        with pytest.raises(ValueError, match="above 0"):
            noise.log_ratio(a, b, (Noise(1, 1, 1),) * 2, TABLE, False)


def test_discoveries_are_called_together():
    assert stats.benjamini_hochberg([0.001, 0.008, 0.039, 0.041, 0.6], 0.05) == pytest.approx(0.02)
    assert stats.benjamini_hochberg([0.5, 0.6], 0.05) == pytest.approx(0.025)
    assert stats.benjamini_hochberg([], 0.05) == 0.05


# ---- what is committed --------------------------------------------------------------------------------------------------


def test_the_shipped_table_is_what_the_committed_calibration_gives():
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        calibrate.fit(DIGESTS)
    assert said.getvalue() == (ROOT / "clmembench" / "analysis" / "noise.toml").read_text()


@pytest.mark.parametrize(
    ("path", "step"),
    [
        pytest.param(
            path, 6 if "xeon-2-cores" in path.stem else 1, marks=pytest.mark.slow if path.stem in LARGE_DIGESTS else ()
        )
        for path in DIGESTS
    ],
    ids=lambda x: getattr(x, "stem", ""),
)
def test_false_alarms_between_committed_runs_are_few(path, step):
    """Runs of one device between which nothing was changed, judged with the noise that the other runs of its kind were fitted
    to."""
    of_host = calibrate.leave_pairs_out(
        calibrate._kinds(DIGESTS)[path.stem.partition("-")[0]], calibrate.read_digest(path), step
    )
    for processes in (1, 6):
        called = Counter(change.verdict for change in calibrate.null_changes(of_host, processes))
        wrong, total = called["slower"] + called["faster"], called.total()
        assert total >= 300 and wrong <= FALSE_DISCOVERY_RATE * total, (processes, called)


def test_two_identical_gpus_have_the_same_bandwidth_within_one_percent():
    runs = calibrate._kinds([path for path in DIGESTS if path.stem.startswith("gpu-")])["gpu"]
    devices = sorted({device for device, _ in runs})
    assert len(devices) > 1
    sides = [Side(runs[device, 0], "gpu", device) for device in devices[:2]]
    found = compare_sides(*sides, {"stream": STREAM}, 0.01, noise.calibrated()).changes
    large = [c for c in found if c.params.get("array_bytes") == 2 << 30]
    assert large and {c.verdict for c in large} == {"same"}


@pytest.mark.parametrize("other", ["epyc-2-cores-pocl-all", "xeon-16-cores-pocl-all"])
def test_a_gpu_and_a_cpu_that_differ_by_factors_are_decided(other):
    """The committed H100 against CPUs: a value is left undecided where the ratio is near 1, not since the verdict is idle."""
    runs = [jsonl.read(ROOT / "reports" / f"{name}.jsonl.gz") for name in ("h100-sxm-all", other)]
    found = compare(*(judged_run(run, frame.sheet_of(run)) for run in runs))
    far = [c for c in found.changes if c.ratio is not None and abs(math.log(c.ratio.value)) > math.log(2)]
    assert len(far) >= 0.6 * sum(c.ratio is not None for c in found.changes) >= 50  # most of the values that both runs have
    assert sum(c.verdict in ("faster", "slower") for c in far) >= 0.9 * len(far), Counter(c.verdict for c in far)
