"""The points of `cache_sharing`: which sets stay on each path, then what paths do to each other, then compute units."""

from __future__ import annotations

from collections.abc import Mapping

from clmembench.model import DeviceInfo, Plan, Point, Record, Value
from clmembench.studies.hierarchy.benchmarks.cache_sharing import PATH_CODES, SHARING_BENCHMARK
from clmembench.studies.hierarchy.sharing.cache_sharing import KIB, pairs_to_try, stored_fits, void_reason

CPU_REASON = "on CPUs every memory space is ordinary memory, behind one first data cache of a core"
LOCAL_BYTES = tuple(n * KIB for n in (1, 4, 8, 16, 32, 46))  # drivers refuse to launch with all of 48 KiB
FEATURE_BY_PATH = {"readonly": "ptx", "image1d_buffer": "images"}
GPU_POINTS = 25  # most points on a GPU: fits, pairs of four paths both ways, and the map of compute units


def sharing_plan(info: DeviceInfo) -> Plan:
    """The points on a device, chosen as records come in; on CPUs one that says why nothing is measured."""
    first = {"question": "fit", "owner": "global"}
    if info.has_cpu_cores:
        yield [_point(first, CPU_REASON)]
        return
    known: list[Record] = list((yield [_point(first)]))
    if not stored_fits(known):
        return
    rest = [path for path in PATH_CODES if path != "global" and FEATURE_BY_PATH.get(path, "") in ("", *info.features)]
    fits: list[Mapping[str, Value]] = [{"question": "fit", "owner": path} for path in rest]
    fits += [{**first, "local_bytes": local} for local in LOCAL_BYTES if local <= info.local_mem_bytes - KIB]
    known += yield [_point(params) for params in fits]
    pairs = pairs_to_try(known)
    if pairs:
        yield [
            _point(
                {
                    "question": "paths",
                    "owner": pair.owner,
                    "other": pair.other,
                    "array_bytes": pair.array_bytes,
                    "other_bytes": pair.other_bytes,
                }
            )
            for pair in pairs
        ]
    if "ptx" in info.features and not void_reason("constant_array", stored_fits(known)):
        yield [_point({"question": "units"})]


def _point(params: Mapping[str, Value], reason: str = "") -> Point:
    return Point(SHARING_BENCHMARK, params, reason=reason)
