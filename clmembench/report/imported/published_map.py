"""The map from the papers' benchmarks, metrics and parameters to ours; and why some published results have no counterpart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model import Value
from clmembench.specs.sheets import Published
from clmembench.units import format_bytes, format_in

FOUND = "findings"  # of topology and advise instead of points: the metric is the finding's name, the level a parameter
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
QUALIFIERS = {"": "", "about": "about ", "above": "over ", "below": "below "}


@dataclass(frozen=True, slots=True)
class Join:
    """Published results of a benchmark and metric, in that unit, with at least the parameters `params` and none of `without`,
    are points of our benchmark and metric `to`. `point` has our parameters that this fixes, and `axes` ours that take the value
    of a published one; `headlines` are the quantities of the verdict that they belong to, and `caveat` says what the paper
    leaves open."""

    benchmark: str
    metric: str
    unit: str
    to: tuple[str, str]
    params: Mapping[str, Value] = field(default_factory=dict)
    point: Mapping[str, Value] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    headlines: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    caveat: str = ""

    def holds(self, result: Published) -> bool:
        """Whether this is a result of that kind. Sizes join in any unit of bytes."""
        unit = "B" if self.unit == "B" and result.unit in BYTES else result.unit
        same = (result.benchmark, result.metric, unit) == (self.benchmark, self.metric, self.unit)
        given = set(self.axes.values()) <= set(result.params)
        given = given and all(result.params.get(name) == value for name, value in self.params.items())
        return same and given and not set(self.without) & set(result.params)


GLOBAL = {"memory": "global", "l1_tlb": "hit"}
CHASE, LINK, GEMM = ("pchase", "latency"), ("transfer", "link_bandwidth"), ("dgemm", "performance")
STREAM, TYPES, SUB_GROUP = ("stream", "bandwidth"), ("datatypes", "bandwidth"), ("subgroup", "access_latency")
TYPE_AXIS = {"dtype": "type"}
NO_OPERATION = "the paper does not say which operation it is of"
ANY_KERNEL = "the paper does not say which of STREAM's kernels it is of"
FANG_MEMORIES = {
    "register": "register",
    "constant": "constant",
    "local memory (CUDA: shared)": "local",
    "private memory (CUDA: local)": "private",
    "global": "global",
    "texture": "image",
}
FINDINGS = {"size": "size_bytes", "line": "line_bytes", "reach": "reach_bytes", "page": "page_bytes"}  # in bytes
COUNTS = {"sets": "sets", "ways": "ways", "entries": "entries"}
LEVELS = ("L1", "L2", "texture L1", "read-only data cache", "L1 TLB", "L2 TLB")


def _chases() -> tuple[Join, ...]:
    """Mei and Chu's patterns: P1 is a hit with translation, P4 a miss of the last cache with it. Their table of 2014 has the
    cost of timing inside (`timing`)."""
    hit, miss = {**GLOBAL, "pattern": "P1"}, {**GLOBAL, "pattern": "P4"}
    first, last = {**hit, "data_cache_level": "L1"}, {**hit, "data_cache_level": "L2"}
    near, memory = ("nearest cache", "load from L1, by topology"), ("memory", "load from DRAM, by topology")
    return tuple(
        join
        for unit in ("ns", "cycles")
        for join in (
            Join("pchase", "latency", unit, CHASE, first, {"level": "L1"}, {}, near, ("timing",)),
            Join("pchase", "latency", unit, CHASE, last, {"level": "L2"}, {}, ("load from L2, by topology",), ("timing",)),
            Join(
                "pchase", "latency", unit, CHASE, {**miss, "data_cache_level": "L2"}, {"level": "DRAM"}, {}, memory, ("timing",)
            ),
        )
    )


def _patterns() -> tuple[Join, ...]:
    """The patterns whose latencies topology finds under the same names; which cache data lies in is said beside them."""
    return tuple(
        Join(
            "pchase", "latency", unit, (FOUND, "latency"), {"memory": "global", "pattern": name}, {"pattern": name},
            {"level": "data_cache_level"}, without=("timing",),
        )
        for unit in ("ns", "cycles")
        for name in ("P1", "P2", "P3", "P4", "P5", "P6")
    )  # fmt: skip


def _geometry() -> tuple[Join, ...]:
    found = []
    for level in LEVELS:
        named = ("size of " + level + ", by topology",) if level in ("L1", "L2") else ()
        for metric, finding in FINDINGS.items():
            to, shown = (FOUND, finding), named if metric == "size" else ()
            found.append(Join("geometry", metric, "B", to, {"of": level}, {"level": level}, {}, shown, ("per",)))
        for metric, finding in COUNTS.items():
            parts = ("set", "size")  # of one set, or in another setting
            found.append(Join("geometry", metric, metric, (FOUND, finding), {"of": level}, {"level": level}, {}, (), parts))
    return tuple(found)


JOINS = (
    *_chases(),
    *_patterns(),
    # Mei and Chu copy words of 4 bytes
    Join("stream", "bandwidth", "GB/s", STREAM, {"op": "copy"}, {"op": "copy", "dtype": "float"}, {}, ("memory copy, float",)),
    *(
        Join(
            "stream", "bandwidth", "GB/s", TYPES, {"type": dtype}, {"dtype": dtype}, {},
            (f"memory copy, {dtype}",), ("op",), NO_OPERATION,
        )
        for dtype in ("float", "double")
    ),
    Join("stream", "bandwidth", "GB/s", TYPES, {}, {}, TYPE_AXIS, (), ("op",), NO_OPERATION),
    Join("stream", "bandwidth", "GB/s", TYPES, {"op": "cudaMemcpy device to device"}, {"dtype": "device_copy"}),
    Join(
        "stream", "bandwidth", "GB/s", STREAM, {"level": "memory"}, {"op": "triad", "dtype": "double"}, {},
        ("memory triad, double",), ("op", "type", "per"), ANY_KERNEL,
    ),
    *(
        Join("transfer", "bandwidth", "GB/s", LINK, {"direction": way}, {"direction": way}, {}, (name,))
        for way, name in (("to_device", "host to device"), ("from_device", "device to host"))
    ),
    Join("dgemm", "rate", "GFLOP/s", GEMM, {"threads": "all"}, {"dtype": "double"}, {}, ("DGEMM",)),
    Join(
        "matmul", "rate", "GFLOP/s", GEMM, {"kernel": "most optimised"}, {"dtype": "float"}, {}, ("SGEMM",), (),
        "precision and size are not stated; of NVIDIA's sample that calls cuBLAS, which is in single precision",
    ),
    *(
        Join(
            "barrier", "cost", unit, ("barrier", "barrier"), {"scope": "work-group"}, {}, {},
            ("work-group barrier, 256 work-items",), (), "the cost of reading the clock is inside; work-items are not stated",
        )
        for unit in ("ns", "cycles")
    ),
    *(
        Join(
            "pchase", "latency", "cycles", ("step_latency", "access_latency"), {"memory": theirs, "work_items": 1},
            {"memory": ours}, caveat="the average over steps of 1 to 1024 words",
        )
        for theirs, ours in FANG_MEMORIES.items()
    ),
    *(
        Join(
            "warp_latency", "latency", "cycles", SUB_GROUP, {"memory": theirs}, {"memory": ours, "pattern": "consecutive"},
            without=("access",),
        )
        for theirs, ours in FANG_MEMORIES.items()
    ),
    Join(
        "warp_latency", "latency", "cycles", SUB_GROUP, {"memory": "texture", "access": "not consecutive"},
        {"memory": "image", "pattern": "scattered"},
    ),
    # in 32 banks of a word as many work-items meet in a bank as the stride says, for powers of two
    Join(
        "banks", "latency", "cycles", ("banks", "latency"), {}, {"word_bytes": 4, "items": 32}, {"stride": "conflict_ways"},
        without=("bank_mode", "stride"),
    ),
    Join("banks", "latency", "cycles", ("banks", "latency"), {"stride": 0}, {"stride": 0, "word_bytes": 4, "items": 32}),
    Join(
        "local_copy", "bandwidth", "GB/s", ("local_copy", "throughput"), {"per": "device"}, {},
        {"work_group": "group_size", "groups_a_unit": "groups_per_unit", "ilp": "ilp"},
    ),
    *(
        Join(step, "time", "ms", (step, "time"), {}, {}, {"variant": "variant", "size": "size"}, (), ("version",))
        for step in ("mnf_filter", "mnf_covariance", "mnf_transform")
    ),
    Join("mnf", "time", "ms", ("mnf", "time"), {"version": "CUDA-MNF"}, {}, {"size": "size"}),
    Join("geometry", "banks", "banks", (FOUND, "banks"), {"of": "local"}, {"level": "local"}),
    Join("geometry", "bank_width", "B", (FOUND, "bank_width_bytes"), {"of": "local"}, {"level": "local"}),
    Join("geometry", "prefetched", "B", (FOUND, "prefetch_bytes"), {"of": "L2"}, {"level": "L2"}),
    *_geometry(),
)  # fmt: skip
# published results that are no point of ours, by benchmark and metric, and why
NOT_JOINED = {
    ("system", ""): "what hardware the paper used",
    ("simulator", ""): "parameters of a simulated GPU",
    ("performance_model", ""): "errors of performance models on a simulated GPU",
    ("roofline", ""): "a ratio of published rates",
    ("replacement", ""): "topology finds the victims' probabilities of a set, and has no single number for them",
    ("timer", ""): "the cost of CUDA's clock(), which is inside none of our latencies",
    ("", "efficiency"): "a fraction of a theoretical peak; the rate itself joins",
    ("", "ratio"): "compares two published values",
    ("", "difference"): "compares two published values",
    ("", "speedup"): "compares two published values",
    ("", "faster_by"): "compares two published values",
    ("", "share_of_serial_time"): "of the paper's serial program",
    ("pchase", "levels"): "the number of plateaus in a figure",
    ("pchase", "penalty"): "the difference of two latencies that join",
    ("local_copy", "needed_sub_groups"): "computed by Little's law",
    ("geometry", ""): "topology has no such finding of this level",
    ("private_array", ""): "the largest array in registers is a finding, whose table quotes the published sizes",
    ("matmul", ""): "kernels that we have no counterpart of",
    ("mnf", ""): "versions that our program does not have",
    ("mnf_covariance", "time"): "of another program",
    ("stream", "bandwidth"): "of one core",
    ("local_copy", "bandwidth"): "of one compute unit; that of all joins",
    ("pchase", "latency"): "with the cost of timing inside, or of a path through textures that is timed in another way",
    ("banks", "latency"): "the mode of 8-byte banks is not stated, so the stride is not known",
}


def why_not_joined(result: Published) -> str:
    """Why a published result is no point of ours, "" where it is one, or where nobody has said why."""
    if any(join.holds(result) for join in JOINS):
        return ""
    keys = ((result.benchmark, result.metric), (result.benchmark, ""), ("", result.metric))
    return next((NOT_JOINED[key] for key in keys if key in NOT_JOINED), "")


def published_text(result: Published) -> str:
    """The value with its unit and its qualifier, which has no digits that the paper does not print: "about 160 GB/s"."""
    scale = BYTES.get(result.unit)
    if scale is not None:
        return QUALIFIERS[result.qualifier] + format_bytes(result.value * scale)
    if result.qualifier:
        return f"{QUALIFIERS[result.qualifier]}{result.value:,.4g} {result.unit}"
    return format_in(result.value, result.unit)
