"""Figures for notebooks: each draws the numbers of its frame, with units, names and intervals, and says what it cannot draw."""

import math

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib import pyplot

import clmembench as cm
from clmembench.report.device_runs import device_label
from tests.builders import CHASE, STREAM, clock, device, header, record, slope, write_run
from tests.report.test_scorecard import triad

GPU, CPU = device("Fast $GPU$"), device("Slow CPU", kind="cpu", platform="P", driver="1")
SIZES = (1 << 20, 1 << 24, 1 << 30)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two devices with bandwidths, latencies and scaling; of the GPU an older run too, and a suspect point."""
    mpl.use("Agg")
    folder = tmp_path_factory.mktemp("runs")
    for name, info, factor in (("gpu", GPU, 20.0), ("cpu", CPU, 1.0), ("old", GPU, 5.0)):
        points = [triad(factor * gb_s, size) for gb_s, size in zip((50.0, 80.0, 100.0), SIZES, strict=True)]
        points += [triad(9e5, 1 << 31, status="suspect", gate="peak", reason="over the peak")] if name == "gpu" else []
        for units, gb_s in ((1, 30.0), (2, 55.0), (4, 100.0)):
            one = triad(factor * gb_s, SIZES[-1])
            points.append(record("stream", one.params, *one.series, place=type(one.place)(units)))
        for size, ns in ((4096, 2.0), (1 << 20, 20.0), (1 << 28, 200.0)):
            times = [ns * (1 + 0.01 * (k % 3 - 1)) for k in range(12)]
            points.append(slope({"array_bytes": size, "spacing_bytes": "line"}, times, core_clock=clock(2.0)))
        head = header(info, {"stream": STREAM, "pchase": CHASE}, run_id=f"01{name != 'old'}{name}")
        write_run(folder / f"{name}.jsonl", points, head)
    yield folder
    pyplot.close("all")


@pytest.fixture(scope="module")
def frame(files):
    return cm.read(files / "*.jsonl")


def drawn(axis) -> dict[str, list[tuple[float, float]]]:
    """The points of each line by its label."""
    handles, labels = axis.get_legend_handles_labels()
    colours = {handle.get_color(): label for handle, label in zip(handles, labels, strict=True)}
    lines = [line for line in axis.lines if len(line.get_xdata())]
    return {
        colours[line.get_color()]: list(zip(*line.get_data(), strict=True)) for line in lines if line.get_color() in colours
    }


def test_bandwidth_over_size_of_the_latest_run_without_what_is_suspect(frame):
    axis = cm.plots.bandwidth(frame)
    found = drawn(axis)
    assert found.keys() == {r"Fast \$GPU\$", device_label(header(CPU))}
    assert [x for x, _ in found[r"Fast \$GPU\$"]] == list(SIZES)
    assert [y for _, y in found[r"Fast \$GPU\$"]] == pytest.approx([1000, 1600, 2000], rel=0.01)
    assert axis.get_xlabel() == "array size" and "GB/s" in axis.get_ylabel() and "triad" in axis.get_ylabel()
    assert axis.xaxis.get_major_formatter()(1 << 20, 0) == "1 MiB"
    (band,) = (one for one in axis.collections if max(one.get_paths()[0].vertices[:, 1]) > 1500)
    good = frame[(frame.run == "01Truegpu") & (frame.metric == "bandwidth") & (frame.status == "ok")]
    assert max(band.get_paths()[0].vertices[:, 1]) == good.ci_high.max()


def test_latency_in_ns_and_in_cycles_of_the_measured_clock(frame):
    for unit, factor in (("ns", 1), ("cycles", 2)):
        axis = cm.plots.latency(frame, unit)
        assert [y for _, y in drawn(axis)[r"Fast \$GPU\$"]] == pytest.approx([2 * factor, 20 * factor, 200 * factor], rel=0.02)
        assert axis.get_ylabel().endswith(f"({unit})") and axis.get_yscale() == "log"


def test_scaling_over_units_absolute_and_relative(frame):
    figure, axis = pyplot.subplots()
    assert cm.plots.scaling(frame, op="triad", ax=axis).figure is figure
    assert [y for _, y in drawn(axis)[r"Fast \$GPU\$"]] == pytest.approx([600, 1100, 2000], rel=0.01)
    relative = drawn(cm.plots.scaling(frame, relative=True))[device_label(header(CPU))]
    assert [x for x, _ in relative] == [1, 2, 4]
    assert [y for _, y in relative] == pytest.approx([1, 55 / 30, 100 / 30], rel=0.01)


def test_headlines_relative_to_a_baseline_turned_so_that_more_is_better(files):
    frame = cm.headlines([files / "gpu.jsonl", files / "cpu.jsonl"])
    extra = {"device": ["Fast $GPU$", device_label(header(CPU))], "group": "latency", "quantity": "wait", "better": "lower"}
    more = pd.DataFrame({**extra, "value": [2.0, 8.0], "log_sd": [0.3, 0.4], "log_freedom": [1e6, 1e6], "status": "ok"})
    axis = cm.plots.headlines(pd.concat([frame, more], ignore_index=True))
    names = [label.get_text() for label in axis.get_yticklabels()]
    (bars,) = axis.containers
    points = dict(zip(names, zip(*bars.lines[0].get_data(), strict=True), strict=True))
    assert points["latency: wait"][0] == pytest.approx(1 / 4)  # waits 4 times as long
    (segments,) = (bar.get_segments() for bar in bars.lines[2])
    assert segments[names.index("latency: wait")][:, 0] == pytest.approx(
        [math.exp(-1.96 * 0.5) / 4, math.exp(1.96 * 0.5) / 4], rel=1e-3
    )
    assert r"times as good as Fast \$GPU\$" in axis.get_xlabel() and "not drawn" in axis.get_xlabel()


def test_what_cannot_be_drawn_is_said(frame, files):
    with pytest.raises(ValueError, match="no point of stream op=nothing dtype=double with bandwidth is ok"):
        cm.plots.bandwidth(frame, op="nothing")
    two = pd.concat([frame, frame.assign(**{"param.order": "random"})])
    with pytest.raises(ValueError, match="several points at one place: choose by order"):
        cm.plots.bandwidth(two)
    with pytest.raises(ValueError, match="no device is called 'Phi'"):
        cm.plots.headlines(cm.headlines(files / "*.jsonl"), "Phi")
    blind = cm.plots.bandwidth(frame.assign(ci_low=math.nan, ci_high=math.nan))
    assert all(len(band.get_paths()) == 0 for band in blind.collections)
