"""The panel "Which device for my code?": its table, its script against Python, hostile names, and what it was compared with."""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from html import unescape

import pytest

from clmembench.analysis.kernel_time import BandwidthLevel, DeviceRates, LatencyLevel, Workload, predict
from clmembench.analysis.little import Estimate
from clmembench.model import BenchmarkInfo, Metric
from clmembench.report import render
from clmembench.report.frame import parts
from clmembench.report.page.page import render_html
from clmembench.report.which_device import panel as which
from clmembench.report.which_device.measured_kernels import ComparedKernel, check_summary
from clmembench.units import format_bytes, format_in, format_value
from tests.builders import BANDWIDTH, device, header, record, run, series
from tests.pages import Page, assert_harmless

ROUND_TRIP = Metric("round_trip", "ns", "ops", "cost", "lower")
FLOP_RATE = Metric("flop_rate", "GFLOP/s", "flops", "rate", "higher")
CARDS = {
    "stream": BenchmarkInfo(1, "memory", "Bandwidth.", "McCalpin 1995", (replace(BANDWIDTH, peak=None),), x="array_bytes"),
    "launch": BenchmarkInfo(1, "sync", "Launches.", "", (ROUND_TRIP,)),
    "arithmetic": BenchmarkInfo(1, "compute", "Arithmetic.", "", (FLOP_RATE,)),
}
HARNESS = """
const script = process.argv[1], [data, cases] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const made = new Function("document", script + "; return { predict, timeText, detailText, bytesText, number, roofs };")(
  { getElementById: () => null });
console.log(JSON.stringify(cases.map(([device, work]) => {
  const found = made.predict(data.devices[device], work);
  return [found.ns, found.bound, found.missing, found.gflop_s, made.roofs(data, work).lines[device],
    found.ns && made.timeText(found.ns[0]), made.detailText(found, data, 1e6), made.bytesText(work.set_bytes),
    made.number(work.flop_per_byte)];
})));
"""


def measured(name, gb_s, *others):
    size = 256 << 20
    triad = record(
        "stream", {"op": "triad", "dtype": "double", "array_bytes": size}, series([round(3 * size / gb_s)] * 8, nbytes=3 * size)
    )
    trip = record("launch", {"groups": 1}, series([10_000] * 8, ops=1))
    rate = record("arithmetic", {"dtype": "double"}, series([1_000_000] * 8, flops=10**9))
    return run([triad, *[{"launch": trip, "arithmetic": rate}[other] for other in others]], header(device(name), CARDS))


@pytest.fixture(scope="module")
def three():
    return [
        measured("Fast <script>alert(1)</script> & \" ' \u202e", 200.0, "launch", "arithmetic"),
        measured("Slow", 20.0, "launch", "arithmetic"),
        measured("Old", 100.0, "launch"),
    ]


def test_the_table_has_times_what_bounds_them_and_the_suite_that_measures_what_is_lacking(three):
    found = which.panel(parts(three))
    title, fast, slow, old = found["table"].rows[0]
    assert title.startswith("triad") and (fast.mark, slow.mark, old.mark) == ("*", "", "")
    assert fast.more == slow.more == ("memory",) and old.more == ("suite compute",)
    nbytes = 3 * 8 * 2**24
    assert fast.value == pytest.approx(10_000 + nbytes / 200, rel=1e-3) and slow.value == pytest.approx(
        10_000 + nbytes / 20, rel=1e-3
    )
    assert [one["number"] for one in found["results"]] == [0, 1, 2] and "benchmark arithmetic" in found["results"][2]["detail"]
    assert which.panel(parts([measured("Old", 100.0)])) is None


def test_hostile_names_stay_text_in_the_panel_and_in_its_data(three):
    source = render_html(three)
    assert_harmless(source)
    assert source.count('id="which-device"') == 1 and "#which-device" in Page(source).links()
    data = json.loads(unescape(re.search(r'data-model="([^"]*)"', source)[1]))
    assert len(data["devices"]) == 3 and "\u202e" not in source


def random_rates(rng):
    def some(low, high):
        value = 10 ** rng.uniform(low, high)
        return None if rng.random() < 0.05 else Estimate(*(float(f"{value * share:.7g}") for share in (1, 0.9, 1.2)))

    levels = [BandwidthLevel("L2", 2.0 ** rng.randint(20, 30), some(2, 4) or Estimate.exact(900), "")] * rng.randint(0, 1)
    ends = sorted(2.0 ** rng.uniform(10, 34) for _ in range(2 * rng.randint(0, 3)))
    names = ["L1", "level 2", rng.choice(("memory", "largest set"))]
    return DeviceRates(
        round_trip_ns=some(3, 5), dispatch_ns=some(3, 5), has_link=rng.random() < 0.7, link_ns=some(3, 5), link_gb_s=some(0, 2),
        vector_gflop_s=some(2, 5), product_gflop_s=some(2, 5),
        bandwidths=(*levels, BandwidthLevel("memory", math.inf, some(1, 4) or Estimate.exact(30), "")),
        latencies=tuple(
            LatencyLevel(name, *pair, some(0, 3) or Estimate.exact(7))
            for name, pair in zip(names[-(len(ends) // 2) :], zip(ends[::2], ends[1::2], strict=True), strict=False)
        ),
        memory_from=2.0 ** rng.randint(0, 28), sources={"vector": "arithmetic", "product": "dgemm, n=4"},
    )  # fmt: skip


def random_work(rng):
    def some(low, high):
        return 0.0 if rng.random() < 0.2 else float(f"{2 ** rng.uniform(low, high):.12g}")

    return Workload(
        some(-6, 10), some(10, 40), 2.0 ** rng.uniform(12, 36), rng.choice((0, 1, 2, 1000)), some(10, 38), some(0, 30),
        rng.random() < 0.5,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("node") is None, reason="node, which runs the page's script, is not installed")
def test_the_script_predicts_and_writes_what_python_does():
    rng = random.Random(1)
    devices = [random_rates(rng) for _ in range(40)]
    cases = [(rng.randrange(40), random_work(rng)) for _ in range(600)]
    data = which.script_data(devices, list(map(str, range(40))))
    sent = json.dumps([data, [[number, asdict(work)] for number, work in cases]])
    script = str(render.asset("which_device.js"))
    done = subprocess.run(["node", "-e", HARNESS, script], input=sent, capture_output=True, text=True, timeout=60, check=True)
    predicted = 0
    for (number, work), (ns, bound, missing, rate, roof, *texts) in zip(cases, json.loads(done.stdout), strict=True):
        found = predict(devices[number], work)
        assert (bound, tuple(missing), (ns is None)) == (found.bound, found.missing, (found.ns is None)), work
        time = format_in(found.ns.value, "ns") if found.ns is not None else None
        assert texts == [time, which.detail_text(found, 1e6), format_bytes(work.set_bytes, 1), format_value(work.flop_per_byte)]
        assert rate == pytest.approx(found.gflop_s, rel=1e-9)
        line = which.roof_line(devices[number], work, data["box"])
        assert (roof["points"] if roof else []) == [pytest.approx(point, abs=0.051) for point in line]
        if found.ns is not None:
            predicted += 1
            assert ns == pytest.approx([found.ns.value, found.ns.low, found.ns.high], rel=1e-9), work
    assert predicted > 300


def test_the_summary_counts_no_point_that_a_prediction_was_made_from():
    def one(name, measured_ns, predicted_ns, is_input=False):
        return ComparedKernel(name, measured_ns, predicted_ns, "memory", is_input)

    text = check_summary(
        [("A", [one("triad", 10, 10, True), one("sum", 10, 12)]), ("B", [one("sum", 40, 10), one("spmv", 10, 11)])]
    )
    assert (
        "3 measured kernels" in text and "1.20 in the median and by 4.00 in the worst case (sum on B, predicted shorter" in text
    )
    many = check_summary([("A", [one(f"sum {n}", 10, 10 + n) for n in range(10)])])
    assert "1.45 in the median, in nine of ten cases by at most 1.80 and by 1.90 in the worst case" in many
    assert check_summary([("A", [one("triad", 10, 10, True)])]) == ""
