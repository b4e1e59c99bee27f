"""contradiction: on the papers' texture L1 the two classic methods disagree, and the trace of single accesses says why."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from clmembench.model import Answer, Probe
from clmembench.studies.hierarchy.classic.methods import (
    ClassicReadings,
    is_miss,
    overflow_traces,
    read_overflow_traces,
    resolve_contradictions,
)
from clmembench.studies.hierarchy.classic.saavedra import read_saavedra, saavedra_chases
from clmembench.studies.hierarchy.classic.wong import read_wong, wong_chases
from clmembench.studies.hierarchy.views.classic_table import classic_section
from tests.simulated import Cache, Machine, Noise, Path, Sets, plain
from tests.studies.hierarchy.test_classic import asked, values

KIB = 1024
MIB = 1 << 20
L2 = Cache(plain(512, 16, 128), 128, 230.0)
TEXTURE = Cache(Sets((96,) * 4, bits=(7, 8)), 32, 110.0)
NOISE = Noise(jitter_cycles=2.0, outliers=0.005, lap_relative=0.0005)
PLAIN = [Cache(plain(32, 4, 128), 128, 32.0), Cache(plain(8, 8, 64), 64, 32.0), Cache(plain(8, 6, 128), 128, 96.0)]


def device(first, noise=NOISE, seed=1):
    return Machine("test", {"global": Path((first, L2), 600.0)}, noise, seed)


@cache
def said(first, stride=32, noise=NOISE):
    """What each method finds of a simulated cache."""
    machine = device(first, noise)
    by_stride = read_saavedra(asked(saavedra_chases(), machine.answer), at_bytes=4 * first.size_bytes)
    by_size = read_wong(asked(wong_chases(stride), machine.answer))
    return by_stride, by_size, read_overflow_traces(asked(overflow_traces(first.size_bytes), machine.answer), first.size_bytes)


def test_the_papers_contradiction_and_what_resolves_it():
    by_stride, by_size, fine = said(TEXTURE)
    assert values(by_stride) == {"size_bytes": 12 * KIB, "line_bytes": 32, "sets": 1, "ways": 384}
    assert values(by_size) == {"size_bytes": 12 * KIB, "line_bytes": 128, "sets": 4, "ways": 24}
    assert values(fine) == {"line_bytes": 32, "sets": 4, "ways": 96, "set_bits": "7-8", "run_bytes": 128}
    found = resolve_contradictions(by_stride, by_size, fine)
    assert values(found) == {"size_bytes": 12 * KIB, "line_bytes": 32, "sets": 4, "ways": 96}
    assert {f.status for f in found.values()} == {"ok"}
    assert "Saavedra 1992 gives 32 B, Wong 2010 gives 128 B" in found["line_bytes"].reason
    assert "128 consecutive bytes, 4 lines, lie in one set" in found["line_bytes"].reason


def test_without_a_trace_the_contradiction_stays():
    by_stride, by_size, _ = said(TEXTURE)
    found = resolve_contradictions(by_stride, by_size, {})
    assert {n: f.status for n, f in found.items()} == {
        "size_bytes": "ok", "line_bytes": "inconsistent", "sets": "inconsistent", "ways": "inconsistent"
    }  # fmt: skip
    line = found["line_bytes"]
    assert (line.value, line.low, line.high) == (None, 32, 128)
    assert "Saavedra 1992 gives 32 B, Wong 2010 gives 128 B" in line.reason


@pytest.mark.parametrize("one", PLAIN, ids=lambda one: f"{one.size_bytes}")
def test_on_plain_caches_all_three_agree(one):
    by_stride, by_size, fine = said(one)
    truth = {"line_bytes": one.line_bytes, "sets": len(one.sets.ways), "ways": one.sets.ways[0]}
    assert values(fine).items() >= truth.items()
    found = resolve_contradictions(by_stride, by_size, fine)
    assert values(found) == {"size_bytes": one.size_bytes, **truth}
    assert {f.status for f in found.values()} == {"ok"}
    assert beside(by_stride, by_size, fine).notes == ("The classic methods agree.",)


ALL, NONE = {"size_bytes", "line_bytes", "sets", "ways"}, set()
# what Saavedra's method, Wong's, the trace and all together tell where the policy is another one than they take for granted
OF_OTHER_POLICIES = {
    "random": ({"size_bytes"}, NONE, NONE, NONE),
    "NRU": (ALL, NONE, NONE, NONE),
    "FIFO": (ALL, ALL, ALL - {"size_bytes"} | {"set_bits", "run_bytes"}, ALL),
    "tree-PLRU": (ALL, ALL, ALL - {"size_bytes"} | {"set_bits", "run_bytes"}, ALL),
}


@pytest.mark.parametrize(("policy", "told"), OF_OTHER_POLICIES.items())
def test_where_lru_does_not_hold_no_method_tells_a_wrong_number(policy, told):
    one = replace(PLAIN[1], policy=policy)
    truth = {"size_bytes": one.size_bytes, "line_bytes": 64, "sets": 8, "ways": 8, "run_bytes": 64}
    by_stride, by_size, fine = said(one)
    for found, names in zip((by_stride, by_size, fine, resolve_contradictions(by_stride, by_size, fine)), told, strict=True):
        assert {name for name, finding in found.items() if finding.status == "ok"} == names
        assert all(found[name].low <= truth[name] <= found[name].high for name in names - {"set_bits"})
        assert "set_bits" not in names or found["set_bits"].value == "6-8"
        rest = [finding for name, finding in found.items() if name not in names]
        assert all(f.status == "undetermined" and f.value is None and f.reason for f in rest)


def test_without_a_clock_the_trace_is_undetermined_and_says_so():
    machine = replace(device(TEXTURE), no_clock="no clock inside a kernel can be read here")
    found = read_overflow_traces(asked(overflow_traces(12 * KIB), machine.answer), 12 * KIB)
    assert {f.status for f in found.values()} == {"undetermined"}
    assert "no clock inside a kernel" in found["ways"].reason


def test_a_mapping_that_is_no_bits_is_not_told_as_one():
    uneven = Cache(Sets((17, *(8,) * 6)), 128, 32.0)
    machine = device(uneven)
    found = read_overflow_traces(asked(overflow_traces(uneven.size_bytes), machine.answer), uneven.size_bytes)
    assert found["ways"].status == found["set_bits"].status == "undetermined"


def test_what_one_method_alone_tells_is_not_taken_for_sure():
    """A line of 128 B in sectors of 32 B: Saavedra's method sees what is fetched."""
    by_stride, by_size, _ = said(Cache(plain(8, 4, 128), 128, 32.0, sector_bytes=32))
    assert by_stride["line_bytes"].value == 32
    found = resolve_contradictions(by_stride, {}, {})
    assert {f.status for f in found.values()} == {"undetermined"}
    assert "Saavedra 1992 alone gives 32 B" in found["line_bytes"].reason
    assert resolve_contradictions(by_stride, by_size, {})["line_bytes"].status != "ok"


def beside(by_stride, by_size, fine):
    return classic_section(ClassicReadings("global", (), (), by_stride, by_size, fine))


def test_side_by_side_shows_each_methods_numbers_and_the_reason():
    section = beside(*said(TEXTURE))
    assert section.header == ("property", "Saavedra 1992", "Wong 2010", "fine-grained trace")
    rows = {row[0]: row[1:] for row in section.rows}
    assert rows["line"] == ("32 B", "128 B", "32 B") and rows["set bits"] == ("", "", "7-8")
    assert sum("4 lines, lie in one set" in note for note in section.notes) == 1
    assert "line 32 B: Saavedra 1992 gives 32 B, Wong 2010 gives 128 B, fine-grained trace gives 32 B" in section.notes


def test_misses_are_what_lies_above_the_first_gap():
    rng = np.random.default_rng(1)
    truth = rng.random(3000) < 0.003
    latencies = np.where(truth, 200.0, 30.0) + rng.normal(0, 1, 3000)
    latencies[np.flatnonzero(truth)[:2]] = 700
    assert (is_miss(latencies) == truth).all() and truth.any()
    assert not is_miss(rng.normal(30, 1, 3000)).any()


def test_an_answer_without_latencies_has_no_places():
    probe = next(overflow_traces(1024))[0]
    assert {f.value for f in read_overflow_traces([Answer(probe, reason="refused")], 1024).values()} == {None}
    assert isinstance(probe, Probe) and probe.mode == "trace"
