"""Throughput of global memory: what its benchmarks expect of their kernels, and what sections and figures say."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from clmembench import studies
from clmembench.benchmarks import MIB, discovered
from clmembench.benchmarks.cache_read import HASH_FACTOR, batch_xors, expected_sums, sums_of_xors
from clmembench.benchmarks.copy_check import expected_words, prepare_copy
from clmembench.benchmarks.datatypes import DEVICE_COPY, TYPE_BYTES
from clmembench.benchmarks.stream import input_value
from clmembench.measure import sampling
from clmembench.model import BenchmarkInfo, Copy, Skip
from clmembench.plan.selection import Selection
from clmembench.plan.sweep import explore
from clmembench.report.figures import curves
from clmembench.report.frame import LabelledRun, parts, rows
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.specs.sheets import Figure, Match, SpecSheet
from clmembench.studies.access.throughput_tables import element_bytes
from tests.builders import CHASE, clock, device, header, open_cpu, record, run, series, slope, walked
from tests.cases import each
from tests.studies.access.test_saturation import CARDS, NBYTES, UNITS, copies

KIB = 1 << 10
SHEET = SpecSheet("Test sheet", "gpu", Match(), {"memory_bandwidth_gb_s": Figure(2500.0, "GB/s", "the data sheet")})
READ = BenchmarkInfo(1, "access", "Reads.", "", discovered()["cache_read"].metrics, x="set_bytes")


UNDIVIDED_BYTES = 10_007 * 8  # bytes of an array: with work-groups of 7, a rest that is no eight elements


@pytest.fixture(scope="module")
def pocl():
    return open_cpu()


def streamed(device, op, dtype="double", width=1, work_group=7, order="item", nontemporal=0):
    if op in ("dot", "read") and order == "item":
        order = "blocked"
    shape = {"order": order, "nontemporal": nontemporal, "width": width, "work_group": work_group}
    return discovered()["stream"].prepare(device, op=op, dtype=dtype, array_bytes=UNDIVIDED_BYTES, **shape)


OPS = [(op, "item") for op in ("copy", "scale", "add", "triad", "write")]
OPS += [(op, order) for op in ("dot", "read") for order in ("blocked", "tiled")]
WIDTHS = (1, 2, 4, 8, 16)


@each(("number", "op", "order"), [(number, *chosen) for number, chosen in enumerate(OPS)])
def test_stream_is_exact_at_odd_sizes_in_every_width(pocl, number, op, order):
    """Each operation with three of the widths and each width with half of the operations, types and work-groups in turns."""
    for step in (0, 1, 3):
        dtype, work_group = ("double", "float")[(number + step) % 2], (7, 64)[(number // 2 + step) % 2]
        work = streamed(pocl, op, dtype, WIDTHS[(number + step) % 5], work_group, order)
        assert sampling.check_outputs(pocl, work) == ""


@each("op", ["copy", "triad", "write"])
@each("place", [0, 4321, -1])  # -1: in the rest behind the last eight
def test_one_wrong_element_of_stream_is_noticed_wherever_it_is(pocl, op, place):
    work = streamed(pocl, op)
    assert sampling.check_outputs(pocl, work) == ""
    out, nbytes = work.outputs[0]
    values = pocl.download(out, np.float64, nbytes // 8)
    values[place] += 1
    pocl.upload(out, values)
    with pytest.raises(AssertionError, match=f"1 of {nbytes // 8} elements"):
        work.check()


@pytest.mark.parametrize("op", ["copy", "triad", "dot", "read"])
def test_what_lies_in_a_kept_input_is_written_anew_and_counts(pocl, op):
    work = streamed(pocl, op)
    launch = work.commands[0]
    inputs = launch.args[:1] if op in ("dot", "read") else launch.args[1:2]
    values = pocl.download(inputs[0], np.float64, 100)
    pocl.upload(inputs[0], values + 1)  # as a point before, of other values, would leave it
    assert sampling.check_outputs(pocl, work) != ""
    assert sampling.check_outputs(pocl, streamed(pocl, op)) == ""


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("levels", [1024, 4])
def test_the_device_fills_stream_as_the_host_knows(pocl, monkeypatch, seed, levels):
    monkeypatch.setattr(pocl, "seed", seed)
    monkeypatch.setattr("clmembench.benchmarks.stream.MAX_INPUT_LEVELS", levels)
    buffer = streamed(pocl, "copy").commands[0].args[1]
    assert np.array_equal(pocl.download(buffer, np.float64, 10_003), input_value(np.arange(10_003), 0x9E3779B9 + seed, levels))


@each(("own", "factor"), [(True, 1), (False, 1), (False, 5)])
@each(("groups", "group", "ilp", "lanes", "blocks", "batches"),
                         [(3, 4, 4, 4, 8, 5), (2, 1, 8, 16, 4, 11), (5, 2, 4, 4, 1, 7), (7, 2, 4, 4, 4, 8)])  # fmt: skip
@each("xor", [False, True])
def test_the_sums_of_what_is_read_are_those_of_reading_it(own, factor, groups, group, ilp, lanes, blocks, batches, xor):
    if xor and (group > 1 or factor > 1):
        group, factor = 1, 1
    seed, block = 12345, ilp * group
    size = block * blocks * (groups if own else 1)
    data = (np.arange(size * lanes, dtype=np.uint64) * HASH_FACTOR + seed).astype(np.uint32).reshape(size, lanes)
    sums = np.zeros((groups, group, lanes), np.uint32)
    for g in range(groups):  # as cache_read.cl goes
        at, seen = 0 if own else g * blocks // groups, []
        addend = 1 if factor == 1 else ((g * 2654435761) % 2**32 >> 7) | 1
        for _ in range(batches):
            first = (g * blocks * block if own else 0) + at * block
            read = data[first : first + block].reshape(ilp, group, lanes)
            sums[g] += np.bitwise_xor.reduce(read, axis=0) if xor else read.sum(axis=0, dtype=np.uint32)
            seen.append(at)
            at = (at * factor + addend) % blocks
        assert len(set(seen[:blocks])) == min(blocks, batches), "a block came twice before all had come once"
    if xor:
        found = sums_of_xors(batch_xors(size // block, ilp, lanes, seed), groups, blocks, own, batches)
    else:
        found = expected_sums(groups, group, ilp, lanes, blocks, own, factor, batches, seed)
    assert found.dtype == np.uint32 and np.array_equal(found, sums)


def test_a_check_sees_one_wrong_sum():
    fake = FakeDevice(replace(FAKE_DEVICE_INFO, array_bytes=4 * MIB))
    work = discovered()["cache_read"].prepare(fake, set="own", path="plain", set_bytes=16 * KIB, unit_items=256).work(64)
    shape = (8, 256, 4, 4, 1, True, 1, 64, 0x85EBCA6B)
    sums = expected_sums(*shape)
    fake.upload(work.outputs[0][0], sums)
    work.check()
    sums[3, 7, 1] += 1
    fake.upload(work.outputs[0][0], sums)
    with pytest.raises(AssertionError, match="1 of 8192 sums"):
        work.check()


@pytest.mark.parametrize("nbytes", [1, 3, 4096, 40_001])
def test_what_was_copied_is_compared_to_the_last_byte(nbytes):
    fake = FakeDevice()
    _, target, check = prepare_copy(fake, nbytes)
    right = expected_words(0, -(-nbytes // 4), 0x9E3779B9).view(np.uint8)
    fake.upload(target, right)
    check()
    right[nbytes - 1] ^= 1
    fake.upload(target, right)
    with pytest.raises(AssertionError, match="differ from the source"):
        check()


def test_words_are_those_of_their_place():
    assert np.array_equal(expected_words(100, 50, 7), expected_words(0, 150, 7)[100:])
    assert (expected_words(0, 1000, 7) != expected_words(0, 1000, 8)).mean() > 0.99
    assert len(set(expected_words(0, 1000, 7).tolist())) > 990


def test_the_devices_copy_is_of_all_bytes_and_no_kernel():
    work = discovered()["datatypes"].prepare(FakeDevice(), dtype=DEVICE_COPY, array_bytes=4097, work_group=256)
    (command,) = work.commands
    assert isinstance(command, Copy) and command.nbytes == 4097 and work.nbytes == 2 * 4097
    odd = discovered()["datatypes"].prepare(FakeDevice(), dtype="double4", array_bytes=4097, work_group=64)
    assert odd.nbytes == 2 * 4096 and odd.commands[0].global_size == (128,)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"work_group": 32, "ilp": 3, "groups": 8}, "ILP of 3"),
        ({"work_group": 2048, "ilp": 1, "groups": 8}, "over this device's largest"),
        ({"work_group": 1024, "ilp": 8, "groups": 1 << 20}, "raise --size"),
    ],
)
def test_a_copy_that_would_not_be_what_it_says_is_refused(params, says):
    with pytest.raises(Skip, match=says):
        discovered()["copy_grid"].prepare(FakeDevice(), array_bytes=MIB, **params)


@pytest.mark.parametrize(("set_bytes", "items"), [(48 * KIB, 256), (16 * KIB, 1024), (1 << 33, 1024)])
def test_a_set_that_cannot_be_read_so_is_refused(set_bytes, items):
    with pytest.raises(Skip):
        discovered()["cache_read"].prepare(FakeDevice(), set="own", path="plain", set_bytes=set_bytes, unit_items=items)


@each("name", ["copy_grid", "datatypes", "cache_read"])
@each(("kind", "units", "most"), [("gpu", 132, 100), ("cpu", 16, 25)])
def test_a_run_asks_for_no_more_points_than_are_worth_their_time(name, kind, units, most):
    info = replace(FAKE_DEVICE_INFO, kind=kind, compute_units=units, global_mem_bytes=128 << 30)
    asked = {str(p.params) for p in walked(explore(discovered()[name], info, Selection())) if p.role == "measure"}
    assert 4 <= len(asked) <= most


def test_elements_are_as_long_as_their_names_say():
    assert {name: element_bytes(name) for name in TYPE_BYTES} == TYPE_BYTES
    assert element_bytes("half") == 0


# ---- sections and figures ---------------------------------------------------------------------------------------------


def chase():
    """600 ns behind a cache of 1 MiB."""
    sizes = [int(4 * KIB * 2 ** (i / 2)) // KIB * KIB for i in range(39)]
    return [slope({"array_bytes": s}, [20.0 if s <= MIB else 600.0] * 8) for s in sizes]


def shown(name, a_run, sheet=SHEET):
    mine = [row for row in rows(a_run, sheet) if row.value.benchmark == name]
    make = studies.tables(name)
    assert make is not None
    return make(a_run, mine)


def text(sections):
    return "\n".join(" | ".join(map(str, cells)) for s in sections for cells in ((s.title,), s.header, *s.rows, s.notes))


def test_table_vi_figure_12_and_what_saturates():
    plain = copies()
    a_run = run((*plain.records, *chase()), replace(plain.header, benchmarks={**CARDS, "pchase": CHASE}))
    achieved, figure12, saturates = sections = shown("copy_grid", a_run)
    assert achieved.rows[0][1] == "2,500 GB/s" and achieved.rows[0][4].startswith(("80", "79"))
    assert len(figure12.rows) == 16 and all(len(r) == len(s.header) for s in sections for r in s.rows)
    told = {row[0]: row[1:] for row in saturates.rows}
    assert told["latency of memory"][0] == "600 ns"
    assert told["bytes in flight by Little's law"][0].startswith("58")  # 600 ns x 1000 GB/s of loads: 586 KiB
    assert told["saturating / Little's law"][0][0] in "01"
    assert "undetermined" not in text([saturates])


def test_without_a_latency_it_is_said():
    said = text(shown("copy_grid", copies(), sheet=None))
    assert "this run has no latency: measure it by run -b pchase" in said and "no spec sheet" in said


def test_no_value_is_no_table_of_numbers():
    bad = copies()
    bad = replace(bad, records=tuple(replace(r, status="failed", reason="it broke", series=()) for r in bad.records))
    said = text(shown("copy_grid", bad))
    assert "it broke" in said and "GB/s |" not in said.replace("in GB/s over", "")
    assert curves.drawn("copy_grid", bad.header.benchmarks["copy_grid"], parts([bad])) == ""


def test_data_types_stand_beside_the_devices_copy():
    rates = {"char": 630, "char4": 1486, "double": 1571, DEVICE_COPY: 1590}
    records = [
        record("datatypes", {"dtype": t}, series([round(NBYTES / r * (1 + e)) for e in (-1e-3, 0, 1e-3) * 4], nbytes=NBYTES))
        for t, r in rates.items()
    ]
    (section,) = shown("datatypes", run(records, header(device(), CARDS)))
    ratios = {row[0]: row[4:6] for row in section.rows}
    assert ratios["double"][0] == "98.8%" and ratios["char"][0] == "39.6%" and ratios[DEVICE_COPY][0] == "–"
    low, high = (float(x.strip("%")) for x in ratios["double"][1].split(" to "))
    assert low < 98.8 < high
    assert "8 B" in section.notes[0]


def reads(*points):
    """Of (set, path, size, work-items, GB/s)."""
    made = []
    for index, (kind, path, size, items, rate) in enumerate(points):
        ends = [series([round(1000 + n * (1 << 20) / rate)] * 8, nbytes=n << 20) for n in (10, 30)]
        params = {"set": kind, "path": path, "set_bytes": size, "unit_items": items}
        made.append(record("cache_read", params, *ends, index=index, core_clock=clock(2.0)))
    info = device(compute_units=UNITS)
    return run((*made, *chase()), header(info, {"cache_read": READ, "pchase": CHASE}))


def test_caches_have_a_rate_a_clock_and_the_best_shape():
    a_run = reads(
        ("own", "plain", 16 * KIB, 256, 24_000), ("own", "plain", 16 * KIB, 512, 25_600), ("shared", "cg", 4 * MIB, 1024, 6000),
        ("shared", "cg", 1024 * MIB, 1024, 2000),
    )  # fmt: skip
    bandwidth, law = shown("cache_read", a_run)
    first = bandwidth.rows[0]
    assert first[:3] == ("own", "plain", "16 KiB") and first[3].startswith("25,6") and first[5:] == ("128", "512")
    assert len(bandwidth.rows) == 3
    needed = {row[2]: row[3:] for row in law.rows}
    assert needed["16 KiB"][0].startswith("500.1 KiB")  # 20 ns x 25,600 GB/s
    assert needed["4 MiB"][2] == "6.2 MiB"  # 100 units x 1024 work-items x 64 B
    card = a_run.header.benchmarks["cache_read"]
    (device,) = parts([a_run])
    drawn = curves.drawn("cache_read", card, [device.of("cache_read")])
    assert "first cache bypassed" in drawn


def test_figure_12_has_a_plot_for_each_work_group_size_and_a_line_for_each_ilp():
    a_run = copies()
    card = a_run.header.benchmarks["copy_grid"]
    drawn = curves.drawn("copy_grid", card, [LabelledRun("Device A", a_run, SHEET, tuple(rows(a_run, SHEET)))])
    for size in (32, 64, 256, 1024):
        assert f"work-groups of {size}" in drawn
    assert all(f"ILP {n}" in drawn for n in (1, 2, 4, 8)) and "theoretical peak" in drawn
    away = re.search(r"a load takes ([0-9]+) ns at least", drawn)
    assert away and 490 <= int(away[1]) <= 500  # less what noise makes of the fastest
    host = replace(a_run, header=replace(a_run.header, device=device(kind="cpu", shares_host_memory=True)))
    on_cores = curves.drawn("copy_grid", card, parts([host]))
    assert "work-groups of 256" in on_cores and "a load takes" not in on_cores  # whose loads are not in flight at once
