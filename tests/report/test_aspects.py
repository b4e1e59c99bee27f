"""Figures that show all devices in one plot: what is drawn where, in which look, and what is said to be left out."""

from dataclasses import replace

import pytest

from clmembench.benchmarks import discovered
from clmembench.model import BenchmarkInfo, Metric, Placement
from clmembench.report.figures import comparison_data, curves
from clmembench.report.figures.aspects import aspects
from clmembench.report.figures.comparison_data import DrawnSeries, PlotPoint, eligible_devices
from clmembench.report.figures.comparison_series import curve_series, placement_series, published_best, published_series
from clmembench.report.figures.paper_figures import CATALOGUE, UNITS, CurveFigure
from clmembench.report.figures.style import look
from clmembench.report.frame import parts
from clmembench.results.imported import ImportedValue
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from tests.builders import CHASE, STREAM, clock, device, header, record, run, series, slope

LINK = BenchmarkInfo(
    3, "link", "Copies.", "somebody", (Metric("link_bandwidth", "GB/s", "nbytes", "rate", "higher"),), x="array_bytes"
)
CARDS = {"pchase": CHASE, "stream": STREAM, "transfer": LINK}
FIGURES = [figure for group in CATALOGUE.values() for figure in group]
LATENCY, CYCLES = CATALOGUE["Latency"]
TRIAD, BEST_TRIAD = CATALOGUE["Bandwidth"]
PINNED, *_, BEST_LINK = CATALOGUE["Host link"]


def latency(kib, ns, **changes):
    return slope({"spacing_bytes": "line", "array_bytes": kib << 10}, [ns] * 16, core_clock=clock(2.0), **changes)


def triad(gb_s, units=None, placement="", nbytes=1 << 30, **changes):
    times = [round(nbytes / gb_s)] * 16
    place = Placement(units, tuple(range(units)) if placement else (), placement) if units else Placement()
    params = {"op": "triad", "dtype": "double", "array_bytes": nbytes}
    return record("stream", params, series(times, nbytes=nbytes), place=place, **changes)


def copy(gb_s, nbytes):
    params = {"direction": "to_device", "memory": "pinned", "array_bytes": nbytes}
    return record("transfer", params, series([round(nbytes / gb_s)] * 16, nbytes=nbytes), version=3)


def devices_of(*runs, labels=()):
    return parts(runs, labels)


def gpu(*records, **changes):
    return run(records, header(device("Fast GPU", **changes), CARDS))


def cpu(*records):
    return run(records, header(device("Slow CPU", kind="cpu", shares_host_memory=True), CARDS))


def places(figure, of):
    drawn, omitted = curve_series(figure, of)
    return [(p.x, pytest.approx(p.y, rel=1e-3)) for p in drawn.points] if drawn else [], [why for _, why in omitted]


def test_440_devices_have_looks_of_their_own_and_8_have_colours_of_their_own():
    assert len({repr(look(number)) for number in range(440)}) == 440
    assert len({look(number).colour for number in range(8)}) == 8
    assert all(look(n).line != look(n + 1).line and look(n).marker != look(n + 1).marker for n in range(40))


def test_the_catalogue_names_what_benchmarks_have():
    wrong = []
    for figure in FIGURES:
        known = discovered()[figure.benchmark]
        if isinstance(figure, CurveFigure):
            metrics, params = {figure.metric}, {*figure.params, *({figure.x} - {UNITS})}
        else:
            headlines = [one for of in figure.variants.values() for one in of]
            metrics, params = {one.metric for one in headlines}, {name for one in headlines for name in one.params}
        wrong += [figure.title] * (not metrics <= {m.name for m in known.metrics} or not params <= {*known.axes})
        wrong += [f"{figure.title}: too long"] * (len(figure.title) > 60)
    assert not wrong


def test_what_the_papers_sweep_over_compute_units_and_on_one_is_in_the_plan():
    missing = []
    for figure in (f for f in FIGURES if isinstance(f, CurveFigure)):
        known = discovered()[figure.benchmark]
        for kind in ("cpu", "gpu") if figure.only != "cpu" else ("cpu",):
            info = replace(FAKE_DEVICE_INFO, kind=kind)
            points = [known.scaling(info), *(known.scaling_also(info) if known.scaling_also else ())] if known.scaling else []
            points = known.single_unit(info) if figure.units == 1 else points
            mine = [p for p in points if all(p.get(n, values[0]) in values for n, values in figure.params.items())]
            missing += [(figure.title, kind)] * (not mine and (figure.x == UNITS or figure.units == 1))
    assert not missing


def test_a_line_has_the_best_good_point_of_each_place_and_says_what_it_leaves_out():
    far = replace(latency(4096, 90.0), status="suspect", reason="the clock drifted")
    (of,) = devices_of(gpu(latency(8, 5.0), latency(8, 4.0, process=1), latency(64, 20.0), far))
    assert places(LATENCY, of) == ([(8192, 4.5), (65536, 20.0)], ["1 point suspect"])
    assert places(CYCLES, of)[0] == [(8192, 9.0), (65536, 40.0)]  # of a clock of 2 GHz
    (without,) = devices_of(gpu(replace(latency(8, 5.0), core_clock=None)))
    assert places(CYCLES, without) == ([], ["1 point without cycles, since the core clock was not known"])


def test_over_compute_units_devices_are_in_placement_compact_and_placements_have_a_line_each():
    study = [triad(10.0, 1, "compact"), triad(11.0, 2, "compact"), triad(18.0, 2, "scatter"), triad(40.0, 4, "compact")]
    (host,) = devices_of(cpu(triad(99.0), *study))
    assert places(TRIAD, host)[0] == [(1, 10.0), (2, 11.0), (4, 40.0)]  # not the whole device's point without a place
    lines = {name: [(p.x, round(p.y)) for p in one.points] for name, one in placement_series(TRIAD, host).items()}
    # on one compute unit and on all of them every placement has the same CPUs
    assert lines == {"compact": [(1, 10), (2, 11), (4, 40)], "scatter": [(1, 10), (2, 18), (4, 40)]}
    # a problem of another size that was measured on one compute unit is no point of that line
    (host,) = devices_of(cpu(triad(99.0), *study, triad(70.0, 1, "compact", nbytes=1 << 20)))
    assert places(TRIAD, host)[0] == [(1, 10.0), (2, 11.0), (4, 40.0)]
    (card,) = devices_of(gpu(triad(900.0), triad(50.0, 1), triad(180.0, 4)))
    assert places(TRIAD, card)[0] == [(1, 50.0), (4, 180.0)] and placement_series(TRIAD, card) == {}


def test_devices_that_a_figure_cannot_show_are_named_with_the_reason():
    old = gpu(copy(20.0, 1 << 20))
    old = replace(old, header=replace(old.header, benchmarks={**CARDS, "transfer": replace(LINK, version=2)}))
    found = devices_of(gpu(copy(50.0, 1 << 20)), cpu(copy(9.0, 1 << 20)), old, labels=("new", "host", "old"))
    shown, card, omitted = eligible_devices(PINNED, found)
    assert ([d.label for d in shown], card.version) == (["new"], 3)
    assert omitted == [
        ("host", "host and device share memory, so there is no link"),
        ("old", "measured with version 2 of transfer, and drawn is version 3"),
    ]


def stated(benchmark, metric, params, value, unit, device, qualifier=""):
    return device, ImportedValue("", value, unit, "", benchmark, metric, params, qualifier=qualifier)


PUBLISHED = [
    stated("pchase", "latency", {"array_bytes": 1 << 28}, 0.3, "us", "Old card"),
    stated("pchase", "latency", {"array_bytes": 1 << 28, "spacing_bytes": 256}, 1.0, "ns", "Old card"),
    stated("pchase", "latency", {"array_bytes": 1 << 28}, 300.0, "cycles", "Other card"),
    stated("stream", "bandwidth", {"op": "triad", "dtype": "double"}, 0.15, "TB/s", "Old card"),
    stated("stream", "bandwidth", {"op": "triad", "threads": 1}, 9.0, "GB/s", "Other card"),
    stated("stream", "efficiency", {"op": "triad"}, 0.5, "fraction", "Other card"),
    stated("pchase", "latency", {"level": "L1"}, 12.0, "ns", "Third card"),
    stated("transfer", "link_bandwidth", {"direction": "to_device"}, 6.0, "GB/s", "Old card"),
    stated("transfer", "link_bandwidth", {"direction": "from_device", "memory": "pinned"}, 8.0, "GB/s", "Old card", "below"),
    stated("transfer", "link_bandwidth", {"direction": "from_device", "memory": "pinned"}, 5.0, "GB/s", "Old card", "about"),
    stated("transfer", "link_bandwidth", {"direction": "to_device", "memory": "pinned"}, 8.0, "GB/s", "Other card", "below"),
]


def test_published_values_have_places_of_their_own_units_scaled_and_are_never_joined_with_measured_ones():
    (one,), omitted = published_series(LATENCY, "ns", PUBLISHED, first=2)
    assert omitted == [("Third card, published", "working set not stated")]
    assert (one.name, one.number, one.is_published) == ("Old card, published", 2, True)
    assert [(p.x, p.y, p.low, p.high) for p in one.points] == [(1 << 28, 300.0, 300.0, 300.0)]
    ((cycles,), _), ((units,), _) = (published_series(f, u, PUBLISHED, 2) for f, u in ((CYCLES, "cycles"), (TRIAD, "GB/s")))
    assert (cycles.name, cycles.number) == (units.name, units.number) == ("Other card, published", 3)
    assert units.points[0].x == 1
    (best,) = published_best(BEST_TRIAD, "GB/s", PUBLISHED, first=2)  # neither that of a part of a device nor an efficiency
    assert (best.name, best.point.y, best.peak) == ("Old card, published", 150.0, None)
    found = [(one.label, one.variant, one.text) for one in published_best(BEST_LINK, "GB/s", PUBLISHED, first=2)]
    assert found == [
        ("Old card", "to_device", "6 GB/s"),  # which host memory it is of is not stated
        ("Old card", "from device, pinned", "about 5 GB/s"),  # rather than a bound, however good
        ("Other card", "to device, pinned", "below 8 GB/s"),
    ]
    lines, omitted = published_series(PINNED, "GB/s", PUBLISHED, first=2)
    assert lines == [] and ("Other card, published", "only a bound is known") in omitted


def test_of_40_devices_8_have_a_name_and_the_others_are_grey_and_named_in_words():
    lines = [DrawnSeries(f"device {n}", n, (PlotPoint(1, n + 1, n + 1, n + 1),)) for n in range(40)]
    named = comparison_data.named_series(lines)
    assert [one.number for one in named] == [0, 6, 11, 17, 22, 28, 33, 39]  # lowest, highest and equal steps between
    assert comparison_data.named_series(lines[:8]) == lines[:8]


def test_the_aspects_of_two_devices_are_the_same_each_time_and_say_everything():
    nodes = gpu(
        *(latency(1 << k, 10.0 * k) for k in range(3, 9)), triad(900.0), triad(200.0, 1), triad(700.0, 4), copy(50.0, 1 << 28)
    )
    host = cpu(latency(8, 2.0), latency(64, 5.0), triad(40.0), copy(9.0, 1 << 20))
    first = aspects(parts([nodes, host]), PUBLISHED)
    assert first == aspects(parts([nodes, host]), PUBLISHED)
    assert [aspect.name for aspect in first] == ["Latency", "Bandwidth", "Host link"]
    (ns, _), (over, best), link = (aspect.figures for aspect in first)
    for text in ("Old card, published", "latency", "working set", "8 KiB", "64 KiB"):
        assert f">{text}</text>" in ns.svg, text
    assert "Razzaq et al. 2016, figure 2;" in ns.caption and "Slow CPU 2.00 ns at 8 KiB to 5.00 ns at 64 KiB" in ns.alt
    assert over.left_out == ("Slow CPU: no points of stream over compute units",)
    assert ">work-groups</text>" in over.svg
    assert [text in best.alt for text in ("Fast GPU 900 GB/s", "Slow CPU 40.0 GB/s", "Old card, published 150 GB/s")] == [
        True
    ] * 3
    assert len(link) == 2  # pinned to the device, and the best; the others have no point, which is said
    assert all("Slow CPU: host and device share memory" in figure.left_out[0] for figure in link)
    assert [line.partition(":")[0] for line in first[2].not_drawn] == [
        "Device to host, pinned host memory", "Host to device, pageable host memory", "Device to host, pageable host memory",
    ]  # fmt: skip


def test_colours_of_devices_are_those_of_the_page_also_where_a_benchmark_has_few_of_them():
    third = run([latency(8, 2.0), latency(64, 5.0)], header(device("Third"), CARDS))
    drawn = curves.drawn("pchase", CHASE, parts([gpu(), cpu(), third]))
    assert look(2).colour in drawn and look(0).colour not in drawn
