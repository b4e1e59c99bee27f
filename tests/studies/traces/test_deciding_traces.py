"""`infer --explain`: the trace that is proposed decides what was open once it is recorded."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from clmembench.cli import exit_codes
from clmembench.cli.program import app
from clmembench.model import Accesses
from clmembench.studies.traces.deciding import advice_text, deciding_traces
from clmembench.studies.traces.traces import infer_from_traces
from tests.hierarchy import Cache, Path, plain
from tests.simulated import Machine, Noise, trace_rows, write_csv

LRU_CACHE = Cache(plain(16, 4, 64), 64, 20)
QUIET = Noise(jitter_cycles=1.0, quantum_cycles=1.0)


def recorded(plan, caches=(LRU_CACHE,), policy_seed=3):
    source = Machine("made", {"global": Path(caches, 500)}, QUIET, policy_seed)
    traces = []
    for number, (offsets, stride) in enumerate(plan, 1):
        rows = trace_rows(source, offsets, offsets.size, trace_id=number, stride_bytes=stride)
        size = int(offsets.max()) + stride
        traces.append(Accesses(str(number), size, stride, 0, offsets, rows["latency"].astype(float)))
    return traces


def laps(size, stride, times=6):
    return np.tile(np.arange(0, size, stride), times), stride


def as_proposed(one):
    """The chase that is proposed, as the recording programs make it."""
    places = one.array_bytes // one.stride_bytes
    random = np.random.default_rng(7).integers(0, places, one.accesses)
    return (random if one.order == "random" else np.arange(one.accesses) % places) * one.stride_bytes, one.stride_bytes


def proposed(traces):
    states = []
    levels = infer_from_traces(traces, states).levels
    return levels[0].findings, deciding_traces(states, traces)


AROUND = [laps(2048, 4, 2), laps(4160, 4, 3), *(laps(size, 64) for size in (4032, 4096, 4160, 4224, 4608, 8192))]


def test_laps_leave_the_policy_open_and_the_proposed_walk_decides_it():
    found, advice = proposed(recorded(AROUND))
    assert found["policy"].status == "undetermined"
    (one,) = [a for a in advice if "policy" in a.properties]
    assert (one.stride_bytes, one.order) == (1024, "random")
    assert one.argument == f"{one.array_bytes}:1024:{one.accesses}:w"
    found, advice = proposed(recorded([*AROUND, as_proposed(one)]))
    assert found["policy"].value == "LRU"
    assert advice == []


def test_what_never_overflowed_is_given_larger_arrays_until_it_does():
    plan = [laps(512, 4, 2), laps(1024, 64)]
    for _ in range(3):
        found, advice = proposed(recorded(plan))
        if found["size_bytes"].status == "ok":
            break
        plan += [as_proposed(a) for a in advice if a.array_bytes]
    assert max(size.max() for size, _ in plan) >= 4096


def test_a_sector_between_bounds_is_told_by_cold_accesses_at_half_the_upper_one():
    plan = [laps(4096, 256, 4), laps(8192, 128, 4), laps(4608, 128, 4)]
    found, advice = proposed(recorded(plan))
    assert found["sector_bytes"].status == "undetermined"
    while (one := next((a for a in advice if "sector_bytes" in a.properties), None)) and len(plan) < 9:
        plan.append(as_proposed(one))
        found, advice = proposed(recorded(plan))
    assert found["sector_bytes"].value == 64


def test_a_line_behind_another_cache_needs_loads_that_bypass_it():
    second = Cache(plain(64, 8, 64), 64, 90)
    more = [laps(size, 64, 5) for size in (16384, 32768, 32832, 33280, 65536)]
    states = []
    traces = recorded([*AROUND, *more], (LRU_CACHE, second))
    infer_from_traces(traces, states)
    (one,) = [a for a in deciding_traces(states, traces) if a.level == "L2" and "line_bytes" in a.properties]
    assert (one.array_bytes, "bypass" in one.reason) == (None, True)
    assert "no trace of this program" in advice_text([one])


def test_nothing_open_needs_no_trace():
    assert "none needed" in advice_text([])


@pytest.fixture
def laps_csv(tmp_path):
    source = Machine("made", {"global": Path((LRU_CACHE,), 500)}, QUIET, 3)
    rows = [
        trace_rows(source, o, o.size, trace_id=n, stride_bytes=s, array_bytes=int(o.max()) + s)
        for n, (o, s) in enumerate(AROUND, 1)
    ]
    write_csv(tmp_path / "laps.csv", *rows)
    return tmp_path / "laps.csv"


def test_the_command_prints_and_has_it_as_json(laps_csv):
    shown = CliRunner().invoke(app, ["infer", str(laps_csv), "--explain"])
    assert shown.exit_code == exit_codes.OK
    assert "Traces that would decide undetermined properties" in shown.stdout
    assert ":1024:1200:w" in shown.stdout
    whole = json.loads(CliRunner().invoke(app, ["infer", str(laps_csv), "--explain", "--json"]).stdout)
    assert [one["order"] for one in whole["deciding_traces"]] == ["random"]
    assert "deciding_traces" not in json.loads(CliRunner().invoke(app, ["infer", str(laps_csv), "--json"]).stdout)
