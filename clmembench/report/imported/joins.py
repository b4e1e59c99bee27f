"""Which benchmark, metric, parameters and headlines of ours a published or imported value is, and why others are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clmembench.model import Value
from clmembench.results.imported import ImportedValue

FOUND = "findings"  # of topology and advise instead of points: the metric is the finding's name, the level a parameter
BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@dataclass(frozen=True, slots=True)
class Join:
    """Values of a benchmark and metric, in that unit, with at least the parameters `params` and none of `without`, are points
    of our benchmark and metric `to`. `point` has our parameters that this fixes, and `axes` ours that take the value of one of
    theirs; `headlines` are the quantities of the verdict that they belong to, and `caveat` says what the source leaves open."""

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

    def holds(self, value: ImportedValue) -> bool:
        """Whether this is a value of that kind. Sizes join in any unit of bytes."""
        unit = "B" if self.unit == "B" and value.unit in BYTES else value.unit
        if (value.benchmark, value.metric, unit) != (self.benchmark, self.metric, self.unit):
            return False
        given = all(value.params.get(name) == wanted for name, wanted in self.params.items())
        return given and set(self.axes.values()) <= set(value.params) and not set(self.without) & set(value.params)


GLOBAL = {"memory": "global", "l1_tlb": "hit"}
CHASE, LINK, GEMM = ("pchase", "latency"), ("transfer", "link_bandwidth"), ("dgemm", "performance")
STREAM, TYPES, SUB_GROUP = ("stream", "bandwidth"), ("datatypes", "bandwidth"), ("subgroup", "access_latency")
FLOPS = ("arithmetic", "flop_rate")
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


# the headlines of loads that hit L1 and L2, and of loads from memory
LOADS = {
    "L1": ("nearest cache", "load from L1, by topology"),
    "L2": ("load from L2, by topology",),
    "DRAM": ("memory", "load from DRAM, by topology"),
}


def _chases() -> tuple[Join, ...]:
    """Mei and Chu's patterns: P1 is a hit with translation, P4 a miss of the last cache with it. Their table of 2014 has the
    cost of timing inside (`timing`)."""
    hit, miss = {**GLOBAL, "pattern": "P1"}, {**GLOBAL, "pattern": "P4"}
    paths = {"L1": {**hit, "data_cache_level": "L1"}, "L2": {**hit, "data_cache_level": "L2"}}
    paths["DRAM"] = {**miss, "data_cache_level": "L2"}
    return tuple(
        Join("pchase", "latency", unit, CHASE, path, {"level": level}, {}, LOADS[level], ("timing",))
        for unit in ("ns", "cycles")
        for level, path in paths.items()
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


def _of_programs() -> tuple[Join, ...]:
    """Joins of values of BabelStream, clpeak and MT4G under the names that their importers give them. nvbandwidth's rates and
    the size of L1 join as published ones do."""
    streams = [{"op": op, "dtype": dtype} for op, dtype in (("copy", "double"), ("triad", "double"), ("copy", "float"))]
    dtypes = [
        (dtype, f"{name} multiply-adds in registers")
        for dtype, name in (("double", "FP64"), ("float", "FP32"), ("half", "FP16"))
    ]
    levels = (("L1", "L1"), ("L2", "L2"), ("memory", "DRAM"))
    return (
        *(
            Join("stream", "bandwidth", "GB/s", STREAM, one, one, {}, (f"memory {one['op']}, {one['dtype']}",))
            for one in streams
        ),
        Join("stream", "bandwidth", "GB/s", STREAM, axes={"op": "op", "dtype": "dtype"}),
        *(
            Join("arithmetic", "flop_rate", "GFLOP/s", FLOPS, {"dtype": dtype}, {"dtype": dtype}, {}, (name,))
            for dtype, name in dtypes
        ),
        *(
            Join("load", "latency", "cycles", CHASE, {"of": theirs}, {"level": ours}, {}, LOADS[ours])
            for theirs, ours in levels
        ),
    )


JOINS = (
    *_chases(),
    *_patterns(),
    *_of_programs(),
    Join(
        "stream", "bandwidth", "GB/s", STREAM, {"op": "copy"}, {"op": "copy", "dtype": "float"}, {}, ("memory copy, float",),
        ("dtype",),  # Mei and Chu copy words of 4 bytes
    ),
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
        Join("transfer", metric, "GB/s", LINK, {"direction": way}, {"direction": way}, {}, (name,))
        for metric in ("bandwidth", "link_bandwidth")  # of papers, and of importers
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


def join_of(value: ImportedValue) -> Join | None:
    """The first join that holds for a value; None where it is no point of ours."""
    return next((join for join in JOINS if join.holds(value)), None)


def why_not_joined(value: ImportedValue) -> str:
    """Why a value is no point of ours; "" where no reason is known."""
    keys = ((value.benchmark, value.metric), (value.benchmark, ""), ("", value.metric))
    return next((NOT_JOINED[key] for key in keys if key in NOT_JOINED), "")
