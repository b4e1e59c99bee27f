"""The case study MNF as plans: every version of each step, then the whole from the first, the last and the quickest ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from clmembench.model import DeviceInfo, Plan, Point, Record, Value
from clmembench.studies.mnf.benchmarks.cubes import CubeSize, parse_cube_size
from clmembench.studies.mnf.benchmarks.mnf import ARRAY_TRANSFORMS, RUN_TIME_TRANSFORMS
from clmembench.studies.mnf.benchmarks.mnf_host import LIBRARY_FILTERS, steps_of
from clmembench.studies.mnf.benchmarks.mnf_kernels import COVARIANCES, FILTERS, TRANSFORMS
from clmembench.studies.mnf.benchmarks.mnf_steps import default_size

FILTER, COVARIANCE, TRANSFORM, WHOLE, HOST = "mnf_filter", "mnf_covariance", "mnf_transform", "mnf", "mnf_host"
BENCHMARKS = (FILTER, COVARIANCE, TRANSFORM, WHOLE, HOST)
MIN_SERIAL_PIXELS = (
    8192  # of the cube that is rotated serially: time per pixel is independent of size, except for the eigenproblems
)
STEP_PROCESSES = {"cpu": 4, "gpu": 3, "accelerator": 3}  # that measure the steps: each has its buffers at other addresses
WHOLE_PROCESSES = 3  # that measure the whole: with fewer its ways are not compared within each
HOST_PROCESSES = 2  # that measure the host alone: seconds a pass
FIRST_VERSIONS = {"filter": "V0", "covariance": "V0", "transform": "V0"}
LAST_VERSIONS = {"filter": list(FILTERS)[-1], "covariance": COVARIANCES[-1], "transform": RUN_TIME_TRANSFORMS[-1]}


def plan(name: str, info: DeviceInfo, size: CubeSize | None, processes: int | None, known: Sequence[Record]) -> Plan:
    """The points of one of BENCHMARKS. `known` are the records of those before it; without a size it is the device's own."""
    size = size or default_size(info)
    count = processes or STEP_PROCESSES[info.kind]
    text = str(size)
    if name == FILTER:
        yield [Point(FILTER, {"variant": v, "size": text}, processes=count) for v in FILTERS]
    elif name == COVARIANCE:
        pairs = [(v, of) for v in COVARIANCES for of in ("noise", "data")]
        yield [Point(COVARIANCE, {"variant": v, "of": of, "size": text}, processes=count) for v, of in pairs]
    elif name == TRANSFORM:
        yield [Point(TRANSFORM, {"variant": v, "size": text}, processes=count) for v in TRANSFORMS]
    elif name == WHOLE:
        chosen: list[dict[str, str]] = []
        for variants in (FIRST_VERSIONS, LAST_VERSIONS, fastest_versions(known)):
            chosen += [dict(variants)] if variants not in chosen else []
        # on a device whose memory is the host's the cube is there already
        memories = ("device",) if info.shares_host_memory else ("device", "host")
        whole = [{**variants, "memory": memory, "size": text} for variants in chosen for memory in memories]
        yield [Point(WHOLE, params, processes=processes or WHOLE_PROCESSES) for params in whole]
    else:
        sizes = {"blas": text, "serial": str(serial_size(size))}
        made = [{"library": of, "step": step, "size": sizes[of]} for of in LIBRARY_FILTERS for step in ("whole", *steps_of(of))]
        yield [Point(HOST, params, processes=processes or HOST_PROCESSES) for params in made]


def serial_size(size: CubeSize) -> CubeSize:
    """As many lines of a cube as have SERIAL_PIXELS pixels, so that the serial program ends; at least two pixels a band."""
    least = -(-(2 * size.bands + 1) // size.width)
    lines = max(3, least, MIN_SERIAL_PIXELS // size.width)
    return CubeSize(size.width, min(size.height, lines), size.bands)


def fastest_versions(known: Sequence[Record]) -> Mapping[str, str]:
    """The fastest version of each step, among filters that use the mean and transformations that do not need T at build time;
    the last version of a step without times."""
    means = [v for v, form in FILTERS.items() if form.kind == "mean"]
    fastest = {}
    for step, name, allowed in (
        ("filter", FILTER, means),
        ("covariance", COVARIANCE, COVARIANCES),
        ("transform", TRANSFORM, [v for v in TRANSFORMS if v not in ARRAY_TRANSFORMS]),
    ):
        times: dict[Value, dict[Value, list[float]]] = {}
        for record in known:
            if record.benchmark == name and record.status == "ok" and record.params["variant"] in allowed:
                each = [t / s.passes for s in record.series for t in s.times_ns()]
                of = times.setdefault(record.params["variant"], {}).setdefault(record.params.get("of", ""), [])
                of.append(statistics.median(each))
        # the covariances of noise and of data count equally; a version that lost a process of either is not compared
        most = {of: max(len(t.get(of, ())) for t in times.values()) for of in {o for t in times.values() for o in t}}
        complete = {
            v: statistics.fmean(statistics.fmean(t[of]) for of in most)
            for v, t in times.items()
            if all(len(t.get(of, ())) == count for of, count in most.items())
        }
        fastest[step] = str(min(complete, key=lambda v: complete[v])) if complete else LAST_VERSIONS[step]
    return fastest


def parse_optional_size(text: str | None) -> CubeSize | None:
    """A user's size. Raises ValueError as cubes.parse_size does."""
    return None if text is None else parse_cube_size(text)
