"""The case study MNF as plans: every version of each step, then the whole from the first, the last and the quickest ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from clmembench.benchmarks.mnf import AS_ARRAY, RUN_TIME, STEPS
from clmembench.benchmarks.mnf_kernels import COVARIANCES, FILTERS, TRANSFORMS
from clmembench.benchmarks.mnf_steps import size_of
from clmembench.cubes import Size, parse_size
from clmembench.model import DeviceInfo, Plan, Point, Record, Value

FILTER, COVARIANCE, TRANSFORM, WHOLE, HOST = "mnf_filter", "mnf_covariance", "mnf_transform", "mnf", "mnf_host"
BENCHMARKS = (FILTER, COVARIANCE, TRANSFORM, WHOLE, HOST)
SERIAL_PIXELS = 8192  # of the cube that is rotated serially: its steps take as long a pixel on any, but for the eigenproblems
PROCESSES = {"cpu": 4, "gpu": 3, "accelerator": 3}  # that measure the steps: buffers lie elsewhere in each
WHOLE_PROCESSES = 2  # that measure the whole, unless the user wants fewer
FIRST = {"filter": "V0", "covariance": "V0", "transform": "V0"}
LAST = {"filter": list(FILTERS)[-1], "covariance": COVARIANCES[-1], "transform": RUN_TIME[-1]}


def plan(name: str, info: DeviceInfo, size: Size | None, processes: int | None, known: Sequence[Record]) -> Plan:
    """The points of one of BENCHMARKS. `known` are the records of those before it; without a size it is the device's own."""
    size = size or size_of(info)
    count = processes or PROCESSES[info.kind]
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
        for variants in (FIRST, LAST, quickest(known)):
            chosen += [dict(variants)] if variants not in chosen else []
        # on a device whose memory is the host's the cube is there already
        memories = ("device",) if info.shares_host_memory else ("device", "host")
        made = [{**variants, "memory": memory, "size": text} for variants in chosen for memory in memories]
        yield [Point(WHOLE, params, processes=min(WHOLE_PROCESSES, count)) for params in made]
    else:
        blas = [Point(HOST, {"library": "blas", "step": step, "size": text}) for step in STEPS]
        small = str(serial_size(size))
        serial = [{"library": "serial", "step": step, "size": small} for step in STEPS if step != "convert"]
        yield blas + [Point(HOST, params) for params in serial]


def serial_size(size: Size) -> Size:
    """As many lines of a cube as have SERIAL_PIXELS pixels, so that the serial program ends; at least two pixels a band."""
    least = -(-(2 * size.bands + 1) // size.width)
    lines = max(3, least, SERIAL_PIXELS // size.width)
    return Size(size.width, min(size.height, lines), size.bands)


def quickest(known: Sequence[Record]) -> Mapping[str, str]:
    """The version of each step that took the least time, of filters that take a mean and of transformations whose T need not be
    known when the program is built; the last one of a step that has no times."""
    means = [v for v, form in FILTERS.items() if form.kind == "mean"]
    found = {}
    for step, name, allowed in (
        ("filter", FILTER, means),
        ("covariance", COVARIANCE, COVARIANCES),
        ("transform", TRANSFORM, [v for v in TRANSFORMS if v not in AS_ARRAY]),
    ):
        times: dict[Value, list[float]] = {}
        for record in known:
            if record.benchmark == name and record.status == "ok" and record.params["variant"] in allowed:
                each = [t / s.passes for s in record.series for t in s.times_ns()]
                times.setdefault(record.params["variant"], []).append(statistics.median(each))
        # the covariance of noise and that of data count alike
        complete = {v: statistics.fmean(t) for v, t in times.items() if len(t) == max(map(len, times.values()))}
        found[step] = str(min(complete, key=lambda v: complete[v])) if complete else LAST[step]
    return found


def parsed(text: str | None) -> Size | None:
    """A user's size. Raises ValueError as cubes.parse_size does."""
    return None if text is None else parse_size(text)
