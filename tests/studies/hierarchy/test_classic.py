"""classic: Saavedra 1992 and Wong 2010 are right on plain caches under LRU, and contradict each other on the texture L1."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from clmembench.model import Answer, Pattern, Probe
from clmembench.model.address_patterns import pattern_offsets
from clmembench.studies.hierarchy.classic.saavedra import read_saavedra, saavedra_chases
from clmembench.studies.hierarchy.classic.wong import read_wong, wong_chases
from tests.cases import each


@dataclass(frozen=True)
class Tiny:
    """One cache under LRU, `low` the lowest address bit of the set; hits and misses of fixed latency."""

    sets: int
    ways: int
    line: int
    low: int = 0
    hit: float = 30.0
    miss: float = 250.0

    @cache  # noqa: B019 - a few of them, each asked the same of several times
    def answer(self, probe: Probe) -> Answer:
        lap = pattern_offsets(probe.pattern)
        low = self.low or self.line.bit_length() - 1
        state = [OrderedDict() for _ in range(self.sets)]
        missed = []
        for _ in range(2):  # the second lap of a periodic chase is as all later ones
            missed = [self._missed(state[(at >> low) % self.sets], at // self.line) for at in lap.tolist()]
        mean = self.hit + (self.miss - self.hit) * sum(missed) / len(missed)
        return Answer(probe, mean, mean * 0.999, mean * 1.001, evidence=(f"r{probe.pattern.count}",))

    def _missed(self, of_set: OrderedDict, line: int) -> bool:
        missed = line not in of_set
        of_set[line] = True
        of_set.move_to_end(line)
        if len(of_set) > self.ways:
            of_set.popitem(last=False)
        return missed


def asked(experiment, answer):
    """What an experiment returns when `answer` answers its probes."""
    probes = next(experiment)
    while True:
        try:
            probes = experiment.send([answer(p) for p in probes])
        except StopIteration as end:
            return end.value


def values(findings):
    return {name: f.value for name, f in findings.items()}


PLAIN = [Tiny(16, 4, 64), Tiny(32, 2, 32), Tiny(8, 6, 128), Tiny(4, 12, 64), Tiny(64, 1, 64)]
TEXTURE = Tiny(4, 96, 32, low=7)


@pytest.mark.parametrize("cache", PLAIN, ids=str)
def test_both_are_right_on_a_plain_cache(cache):
    truth = {
        "size_bytes": cache.sets * cache.ways * cache.line, "line_bytes": cache.line, "sets": cache.sets, "ways": cache.ways
    }  # fmt: skip
    assert values(read_saavedra(asked(saavedra_chases(), cache.answer))) == truth
    assert values(read_wong(asked(wong_chases(16), cache.answer))) == truth


def test_on_the_texture_cache_they_contradict_each_other_as_in_the_papers():
    by_stride, by_size = asked(saavedra_chases(), TEXTURE.answer), asked(wong_chases(32), TEXTURE.answer)
    figure_4 = read_saavedra(by_stride, at_bytes=48 << 10)
    assert values(figure_4) == {"size_bytes": 12 << 10, "line_bytes": 32, "sets": 1, "ways": 384}
    assert values(read_wong(by_size)) == {"size_bytes": 12 << 10, "line_bytes": 128, "sets": 4, "ways": 24}


def test_saavedra_contradicts_itself_there_where_a_second_line_of_its_figure_is_read():
    found = read_saavedra(asked(saavedra_chases(), TEXTURE.answer))
    assert found["line_bytes"].value == 32
    assert found["ways"].status == found["sets"].status == "inconsistent"
    assert "384 at 49152 B but 96 at 98304 B" in found["ways"].reason


def test_wong_tells_all_where_a_line_is_as_wide_as_its_stride():
    truth = {"size_bytes": 1024, "line_bytes": 16, "sets": 16, "ways": 4}
    assert values(read_wong(asked(wong_chases(16), Tiny(16, 4, 16).answer))) == truth


def test_a_capacity_between_the_sizes_tried_is_within_saavedras_interval():
    cache = Tiny(16, 5, 64)
    found = read_saavedra(asked(saavedra_chases(), cache.answer))
    for name, truth in {"size_bytes": 5120, "ways": 5, "sets": 16}.items():
        assert found[name].low <= truth <= found[name].high
    assert read_wong(asked(wong_chases(16), cache.answer))["ways"].value == 5


@pytest.mark.parametrize(("experiment", "read"), [(saavedra_chases, read_saavedra), (wong_chases, read_wong)])
def test_without_a_cache_there_is_no_conclusion(experiment, read):
    flat = replace(PLAIN[0], miss=30.0)
    found = read(asked(experiment(most_bytes=1 << 15), flat.answer))
    assert {f.status for f in found.values()} == {"undetermined"}
    assert all(f.reason and f.value is None for f in found.values())


@pytest.mark.parametrize(("experiment", "read"), [(saavedra_chases, read_saavedra), (wong_chases, read_wong)])
def test_a_device_that_does_not_answer_is_no_evidence(experiment, read):
    found = read(asked(experiment(most_bytes=1 << 13), lambda probe: Answer(probe, reason="no such memory space")))
    assert {f.status for f in found.values()} == {"undetermined"}
    assert "no such memory space" in found["size_bytes"].reason


@pytest.mark.parametrize("cache", PLAIN[:3], ids=str)
def test_points_that_were_disturbed_make_no_wrong_number(cache):
    """One lap in thirty is up to half slower, which is as much as a miss here."""
    cache = replace(cache, miss=50.0)
    truth = {
        "size_bytes": cache.sets * cache.ways * cache.line, "line_bytes": cache.line, "sets": cache.sets, "ways": cache.ways
    }  # fmt: skip
    rng = np.random.default_rng(5)

    def disturbed(probe):
        found = cache.answer(probe)
        return replace(found, value=found.value * (1 + 0.5 * rng.random() * (rng.random() < 1 / 30)))

    told = 0
    for _ in range(4):
        for found in (read_saavedra(asked(saavedra_chases(), disturbed)), read_wong(asked(wong_chases(16), disturbed))):
            for name, finding in found.items():
                assert finding.status != "ok" or finding.low <= truth[name] <= finding.high
                told += finding.status == "ok"
    assert told


def test_latencies_that_equation_1_does_not_have_are_no_ways():
    """Half of the lines at the stride that ends the misses."""

    def partly(probe):
        found = PLAIN[0].answer(probe)
        odd = probe.pattern.stride_bytes == 2048
        return replace(found, value=140.0) if odd else found

    found = read_saavedra(asked(saavedra_chases(), partly))
    assert found["ways"].status == "undetermined" and "equation (1)" in found["ways"].reason


def test_findings_name_the_method_its_evidence_and_what_it_takes_for_granted():
    found = read_saavedra(asked(saavedra_chases(), PLAIN[0].answer))["ways"]
    assert found.method == "Saavedra 1992" and found.evidence and "LRU" in found.reason


def test_a_size_that_was_not_reached_bounds_the_size_alone():
    probe = Probe(Pattern("sequential", 64, 32), "global")
    found = read_wong(tuple(Answer(replace(probe, pattern=replace(probe.pattern, count=n)), 4.0) for n in (32, 64, 128)))
    assert (found["size_bytes"].status, found["size_bytes"].low) == ("undetermined", 4096)
    assert [found[name].low for name in ("line_bytes", "sets", "ways")] == [None, None, None]


READERS = {"Saavedra": (saavedra_chases, read_saavedra), "Wong": (wong_chases, read_wong)}


@cache
def full_answers(method):
    """Every answer of a method on a plain cache of 8 KiB: 16 sets of 4 lines of 128 B."""
    return asked(READERS[method][0](most_bytes=1 << 17), Tiny(16, 4, 128).answer)


def skipped(answers, gone):
    """The answers without those numbered, whose records were skipped."""
    return [
        replace(a, value=None, low=None, high=None, reason="the budget was spent", evidence=(f"skipped:{n}",))
        if n in gone
        else a
        for n, a in enumerate(answers)
    ]


def check_against_the_cache(findings, answers):
    """Whatever is said is true of the cache, and rests on answers alone."""
    true = {"size_bytes": 8192, "line_bytes": 128, "sets": 16, "ways": 4}
    known = {e for a in answers if a.value is not None for e in a.evidence}
    for name, finding in findings.items():
        assert set(finding.evidence) <= known
        assert finding.status != "ok" or finding.value is not None
        assert finding.low is None or finding.low <= true[name], (name, finding)
        assert finding.high is None or finding.high >= true[name], (name, finding)
        assert finding.low != 0
        if finding.status == "ok":
            assert finding.evidence


@pytest.mark.parametrize("method", READERS)
def test_all_that_was_skipped_says_nothing(method):
    answers = full_answers(method)
    gone = skipped(answers, range(len(answers)))
    for finding in READERS[method][1](gone).values():
        assert (finding.value, finding.low, finding.high, finding.evidence) == (None, None, None, ())
        assert "budget" in finding.reason
    for finding in READERS[method][1]([]).values():
        assert (finding.value, finding.low, finding.high) == (None, None, None)


@pytest.mark.parametrize("method", READERS)
def test_a_budget_that_was_spent_midway_leaves_true_bounds(method):
    answers = full_answers(method)
    for kept in range(0, len(answers), max(1, len(answers) // 40)):
        left = skipped(answers, range(kept, len(answers)))
        check_against_the_cache(READERS[method][1](left), left)


@each("method", READERS)
@each("share", [0.02, 0.2, 0.5, 0.9])
def test_no_answer_rests_on_points_that_are_missing(method, share):
    answers, random = full_answers(method), np.random.default_rng(7)
    for _ in range(40):
        left = skipped(answers, set(np.flatnonzero(random.random(len(answers)) < share).tolist()))
        check_against_the_cache(READERS[method][1](left), left)
        check_against_the_cache(READERS[method][1](left[: int(random.integers(1, len(left)))]), left)


@pytest.mark.parametrize("method", READERS)
def test_all_answers_tell_the_whole_cache(method):
    found = READERS[method][1](full_answers(method))
    assert {name: f.status for name, f in found.items()} == dict.fromkeys(("size_bytes", "line_bytes", "sets", "ways"), "ok")
