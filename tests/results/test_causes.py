"""Decisions rest on causes: every sentence may change, and quarantine, --resume and the inference decide as before."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clmembench.measure import runner
from clmembench.measure.job import ProbeResult
from clmembench.measure.runner import MAX_PROCESS_DEATHS, run_selection
from clmembench.measure.worker_process import WorkerError, WorkerProcess
from clmembench.model import Cause
from clmembench.plan.selection import Selection
from clmembench.results.jsonl import decode_record, encode, read
from clmembench.runtimes.fake import FAKE_DEVICE_INFO
from clmembench.studies.hierarchy.replacement import policies
from clmembench.studies.hierarchy.replacement.cache_set import DETERMINISTIC_POLICIES, hits_of_accesses
from clmembench.studies.traces.footprints import stream_footprint
from clmembench.studies.traces.geometry import TraceSelection
from clmembench.studies.traces.hypothesis import CacheHypothesis
from clmembench.studies.traces.properties import cache_findings
from clmembench.studies.traces.set_mappings import SetMapping
from clmembench.studies.traces.streams import AccessStream
from tests.builders import record
from tests.cases import each

GOLDEN = Path(__file__).parents[1] / "golden"
STORED = GOLDEN / "schema1-cause.jsonl"
FOUND = ProbeResult(FAKE_DEVICE_INFO.features, 1.0, "test", 1.0)
SPENT = ("the run's --budget was spent", "the time that --benchmark-timeout gives one benchmark was spent")
DEADLY = ("its process ", "the device was lost", "no answer within")
MEASURED = [n for n, r in enumerate(read(STORED).records) if r.benchmark == "launch" and r.role == "measure"]
OTHER = {"groups": 1000}  # a point of which nothing is known


@pytest.fixture
def measured(monkeypatch):
    """Every point that is handed to a worker process is ok at once; the list of them."""
    points = []

    def measure(self, point, timeout_s):
        points.append(point)
        return record(point.benchmark, point.params, process=self.job.process, role=point.role)

    monkeypatch.setattr(WorkerProcess, "__init__", lambda self, job: setattr(self, "job", job))
    monkeypatch.setattr(WorkerProcess, "measure", measure)
    monkeypatch.setattr(WorkerProcess, "end", lambda self: None)
    return points


def reworded(records):
    return [replace(r, reason="x", log="x", stopped="x", notes=("x",) if r.notes else ()) for r in records]


def records_of(path):
    found = read(path, strict=True)
    assert not found.notes
    return list(found.records)


def decided(known, benchmark, axes):
    """What a resumed run does: each point that is not answered by what is known, with its outcome."""
    selection = Selection(globs=(benchmark,), axes=axes, processes=1)
    return [
        (dict(r.params), r.role, r.status, r.cause) for r in run_selection("fake", FAKE_DEVICE_INFO, FOUND, selection, known)
    ]


def test_every_stored_record_that_is_not_ok_has_a_cause():
    stored = records_of(STORED)
    assert all((r.status == "ok") == (r.cause is Cause.NONE) for r in stored)
    assert Cause.UNKNOWN not in {r.cause for r in stored}


@pytest.mark.parametrize("number", MEASURED)
def test_a_resumed_run_decides_by_each_stored_record_as_it_did_by_its_words(measured, number):
    """The words of the file are the oracle: what they tell people is what the cause tells the run."""
    one = records_of(STORED)[number]
    died = one.status in ("failed", "timeout") and one.reason.startswith(DEADLY)
    known = [one, *(replace(one, params={"groups": 2000 + n}) for n in range(MAX_PROCESS_DEATHS - 1))]
    again = one.reason in SPENT
    expected = [OTHER] * (not died) + [dict(one.params)] * again
    for stored in (known, reworded(known)):
        measured.clear()
        outcomes = decided(stored, "launch", {"groups": (one.params["groups"], OTHER["groups"])})
        assert sorted(p.params["groups"] for p in measured) == sorted(p["groups"] for p in expected)
        assert [cause for params, _, _, cause in outcomes if params == OTHER] == [Cause.QUARANTINE if died else Cause.NONE]
        assert any(params == one.params for params, *_ in outcomes) == again


def test_a_resumed_search_leaves_out_what_has_ended_its_process(measured):
    trials = [r for r in records_of(STORED) if r.benchmark == "stream" and r.role == "tune" and r.params["op"] == "copy"]
    dead = [r for r in trials if r.cause is Cause.PROCESS_DIED]
    assert len(dead) > 1
    axes = {"op": ("copy", "write"), "dtype": ("float",), "array_bytes": (1 << 20,)}
    shape = {"order", "nontemporal", "width", "work_group"}
    outcomes = decided(trials, "stream", axes)
    tried = [p.params for p in measured if p.role == "tune"]
    assert not any(all(one[name] == r.params[name] for name in shape) for one in tried for r in dead)
    assert sum(cause is Cause.QUARANTINE for _, role, _, cause in outcomes if role == "tune") == len(dead)
    measured.clear()
    assert decided(reworded(trials), "stream", axes) == outcomes


@pytest.mark.parametrize("cause", sorted(runner.PROCESS_ENDING_CAUSES))
def test_a_run_stops_trying_after_two_deaths_whatever_is_said_of_them(monkeypatch, measured, cause):
    def die(self, point, timeout_s):
        raise WorkerError("x", cause)

    monkeypatch.setattr(WorkerProcess, "measure", die)
    outcomes = decided([], "launch", {"groups": (1, 2, 4)})
    status = "timeout" if cause is Cause.TIMEOUT else "failed"
    assert [(s, c) for _, _, s, c in outcomes] == [(status, cause)] * MAX_PROCESS_DEATHS + [("failed", Cause.QUARANTINE)]


def test_a_cause_that_a_newer_version_wrote_costs_no_record():
    line = encode(record(status="skipped", cause=Cause.BUDGET)).replace('"budget"', '"power_cap"')
    assert decode_record(line).cause is Cause.UNKNOWN


def random_flags():
    """A set of six lines whose hits and misses are a coin's, which no policy explains."""
    random = np.random.default_rng(1)
    lines = random.integers(0, 6, 1000)
    return lines[np.r_[True, np.diff(lines) != 0]], random


def lru_lap():
    """A lap over five lines of four ways, which LRU explains as well as FIFO."""
    lines = np.tile(np.arange(5), 60)
    return lines, np.array([not hit for hit in hits_of_accesses(DETERMINISTIC_POLICIES["LRU"][0], 4, lines.tolist())])


@each("words", [None, "x", "no policy that is known"])
@each("explained", [False, True])
def test_the_inference_of_a_cache_does_not_read_what_is_said_of_its_policy(monkeypatch, words, explained):
    if explained:
        lines, missed = lru_lap()
    else:
        lines, random = random_flags()
        missed = random.random(lines.size) < 0.5
    if words is not None:
        reworded_finding = policies.policy_finding
        monkeypatch.setattr(
            policies, "policy_finding", lambda name, method, reason, evidence: reworded_finding(name, method, words, evidence)
        )
    stream = AccessStream("t:1", 64, 64 * lines, missed.astype(np.int8), 0)
    given = TraceSelection(64, (stream,), (stream_footprint(stream),))
    near = [CacheHypothesis(64, SetMapping(64, 64, 1), 4, "random", 0.0, True)]
    found = cache_findings(near, given, (64, 64))
    # a cache that is not explained has bounds alone
    assert (found["size_bytes"].status == "ok") == explained
    assert found["policy"].status == "undetermined"
