"""infer.path_geometry: first caches of the constant, image and read-only paths of simulated devices of which all is known."""

from dataclasses import replace

import pytest

from clmembench.model import Answer, CacheLevel
from clmembench.model.address_patterns import pattern_bytes
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.studies.hierarchy.levels.infer_hierarchy import ProbeLimits, infer_hierarchy
from clmembench.studies.hierarchy.levels.memory_spaces import path_levels
from clmembench.studies.hierarchy.levels.path_geometry import with_geometry_of_path
from clmembench.studies.hierarchy.plan import replay
from clmembench.studies.hierarchy.probes.probing import ProbeSession
from tests.cases import each
from tests.found_hierarchies import known, level
from tests.simulated import KIB, MIB, Cache, Machine, Noise, Path, Sets, plain
from tests.truths import hashed

QUIET = Noise(jitter_cycles=1.0, lap_relative=0.001)
BEHIND = Cache(plain(512, 16, 64), 64, 98.6)  # constant L1.5


def machine(space, *caches, memory=600.0, noise=QUIET):
    return Machine("test", {"global": Path((), 500.0), space: Path(tuple(caches), memory)}, noise, 7)


def first_level(device, space, most=256 * MIB, node=128, longest=2 * MIB, global_first=None):
    """The first level of a path, and how many probes it took; the space has room for `most` bytes."""
    asked = []

    def said(probes):
        asked.extend(probes)
        full = [pattern_bytes(probe.pattern) > most for probe in probes]
        return [
            Answer(probe, reason="no room") if over else device.answer(probe) for probe, over in zip(probes, full, strict=True)
        ]

    levels = replay(path_levels(ProbeSession(), space, node, longest, global_first), said)
    return levels[0], len(asked)


def values(found: CacheLevel):
    return {name: f.value for name, f in found.findings.items() if f.status == "ok"}


@each("policy", ["LRU", "FIFO", "random"])
@each(("sets", "ways"), [(8, 4), (4, 8), (1, 32)])
def test_a_constant_l1_of_2_kib_is_recovered_within_64_kib(sets, ways, policy):
    device = machine("constant_array", Cache(plain(sets, ways, 64), 64, 28.2, policy), BEHIND)
    found, asked = first_level(device, "constant_array", 64 * KIB)
    told = values(found)
    exact = {"size_bytes": 2 * KIB, "line_bytes": 64, "ways": ways, "sets": sets}
    assert {name: told.get(name, true) for name, true in exact.items()} == exact
    assert told["size_bytes"] == 2 * KIB and told["latency_cycles"] == pytest.approx(28.2, rel=0.02)
    assert told.get("policy", policy) == policy
    assert asked < 400


@pytest.mark.parametrize("space", ["image1d_buffer", "readonly"])
def test_the_cache_of_an_image_or_a_read_only_path_has_size_line_and_sets(space):
    device = machine(space, Cache(plain(32, 8, 128), 128, 88.5, sector_bytes=32), Cache(plain(4096, 16, 128), 128, 300.0))
    found, asked = first_level(device, space)
    exact = {"size_bytes": 32 * KIB, "line_bytes": 128, "sector_bytes": 32, "ways": 8, "sets": 32}
    assert exact.items() <= values(found).items()
    assert asked < 400


def test_a_hash_of_sets_gives_no_wrong_ways():
    device = machine("image1d_buffer", Cache(hashed(64, 8, 64), 64, 88.5), Cache(plain(4096, 16, 64), 64, 300.0))
    found, _ = first_level(device, "image1d_buffer")
    truth = {"line_bytes": 64, "sector_bytes": 64, "ways": 8, "sets": 64}
    assert all(truth.get(name, value) == value for name, value in values(found).items())
    size = found.findings["size_bytes"]
    assert size.low <= 32 * KIB <= size.high
    assert size.status == "ok" and abs(size.value - 32 * KIB) <= 2 * 64


def test_uneven_sets_give_a_lower_bound_alone():
    sets = Sets((24, 8, 8, 8), bits=(7, 8))
    device = machine("image1d_buffer", Cache(sets, 32, 88.5), Cache(plain(4096, 16, 64), 64, 300.0))
    size = first_level(device, "image1d_buffer", node=32)[0].findings["size_bytes"]
    assert size.status != "ok" and size.low <= 48 * 32 <= (size.high or 48 * 32)


def global_l1(latency, nbytes):
    return level("L1", "global", known("size_bytes", nbytes, nbytes, nbytes), known("latency_cycles", latency))


def test_a_path_of_the_latency_and_size_of_global_memorys_l1_takes_few_probes():
    cache = Cache(plain(32, 8, 128), 128, 32.2, sector_bytes=32)
    device = machine("readonly", cache, Cache(plain(4096, 16, 128), 128, 300.0))
    like, few = first_level(device, "readonly", global_first=global_l1(32.3, 32 * KIB))
    other, many = first_level(device, "readonly", global_first=global_l1(45.0, 32 * KIB))
    assert values(like)["size_bytes"] == values(other)["size_bytes"] == 32 * KIB
    assert few < many - 20
    assert "probed there" in like.findings["ways"].reason and values(other)["ways"] == 8
    # lines of others may have been there
    near, _ = first_level(device, "readonly", global_first=global_l1(32.3, 32 * KIB + 3 * 128))
    size = near.findings["size_bytes"]
    assert (size.value, size.low, size.high) == (32 * KIB + 384, 32 * KIB, 32 * KIB + 384)
    # as quick, but of another size: all is looked for
    wrong, _ = first_level(device, "readonly", global_first=global_l1(32.3, 48 * KIB))
    assert values(wrong)["size_bytes"] == 32 * KIB and values(wrong)["ways"] == 8


def test_no_stride_of_a_two_dimensional_image_is_believed():
    device = machine("image2d", Cache(plain(32, 8, 128), 128, 94.6), Cache(plain(4096, 16, 128), 128, 300.0))
    found, _ = first_level(device, "image2d")
    size = found.findings["size_bytes"]
    assert size.status == "undetermined" and size.low <= 32 * KIB <= size.high
    assert "ways" not in found.findings


def test_the_whole_experiment_knows_the_constant_path_too():
    paths = {
        "global": Path((Cache(plain(64, 8, 64), 64, 32.2),), 500.0),
        "readonly": Path((Cache(plain(64, 8, 64), 64, 32.2),), 500.0),
        "constant": Path((Cache(plain(8, 4, 64), 64, 28.2), BEHIND), 600.0),
    }
    device = Machine("test", paths, QUIET, 7)
    limits = ProbeLimits(64 * MIB, MIB, frozenset(paths), 64)
    found = replay(infer_hierarchy(limits), lambda probes: [device.answer(probe) for probe in probes])
    constant = values(found.constant[0])
    assert (constant["size_bytes"], constant["line_bytes"], constant["ways"]) == (2 * KIB, 64, 4)
    readonly = next(one for one in found.levels if one.space == "readonly")
    assert values(readonly)["size_bytes"] == 32 * KIB


def test_another_path_of_the_same_first_cache_tells_its_sets():
    """As on a CPU whose core a neighbour shares: laps over global memory bound the size alone."""

    def one(space, ns, **told):
        found = {name: measured_finding(name, value, "test", ("chase:1",)) for name, value in told.items()}
        latency = measured_finding("latency_ns", ns, "test", ("chase:2",))
        return CacheLevel("L1", space, {**found, "latency_ns": latency})

    unknown = {name: undetermined_finding(name, "not known") for name in ("line_bytes", "ways", "sets")}
    size = undetermined_finding("size_bytes", "a bound", low=31.2 * KIB, high=35.4 * KIB)
    own = one("global", 1.08)
    own = replace(own, findings={**own.findings, **unknown, "size_bytes": size})
    path = one("readonly", 1.083, size_bytes=32 * KIB, line_bytes=64, ways=8, sets=64)
    told = with_geometry_of_path(own, path).findings
    assert [told[name].value for name in ("size_bytes", "line_bytes", "ways", "sets")] == [32 * KIB, 64, 8, 64]
    assert "read-only path" in told["ways"].method
    near = measured_finding("size_bytes", 31.8 * KIB, "test", ("chase:3",), 31.7 * KIB, 31.8 * KIB)  # a neighbour took a line
    close = with_geometry_of_path(replace(own, findings={**own.findings, "size_bytes": near}), path).findings
    assert (close["size_bytes"].value, close["ways"].value) == (32 * KIB, 8)
    for other in (one("readonly", 1.2, size_bytes=32 * KIB, ways=8), one("readonly", 1.08, size_bytes=48 * KIB, ways=12)):
        assert with_geometry_of_path(own, other) is own
