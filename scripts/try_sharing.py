"""Prints what cache_sharing measures on a device: python scripts/try_sharing.py [PART OF THE DEVICE'S NAME, default NVIDIA]."""

import sys
import time
from dataclasses import replace

import numpy as np

from clmembench.benchmarks import discovered
from clmembench.measure.sampling import sample_point
from clmembench.model.sharing import SAME_WALKS, WALKS
from clmembench.plan.budget import Budget
from clmembench.runtimes import runtime

BUDGET = Budget(min_time_s=0.0, max_time_s=0.05, max_noise=0.01, slope_ns=5e5, patience=20)
name = sys.argv[1] if len(sys.argv) > 1 else "NVIDIA"
info = next(d for d in runtime("opencl").devices() if name in d.name or name in d.platform or name in d.vendor)
features = {"tsc", "fence", "images"} if info.kind == "cpu" else {"ptx", "images"}
info = replace(info, features=info.features | features)
device = runtime("opencl").open(info)
print(info.name, info.constant_bytes, info.local_mem_bytes, info.line_bytes, info.compute_units)
benchmark = discovered()["cache_sharing"]
began = time.time()


def go(**params):
    """The data of one point."""
    start = time.time()
    try:
        found = sample_point(device, benchmark.prepare(device, **params), BUDGET, 1.0)
    except Exception as error:
        print(params, "ERROR", type(error).__name__, str(error)[:300])
        return None
    if found.wrong:
        print(params, "WRONG", found.wrong)
        return None
    reads = {key: value.unpack() for key, value in found.series[0].reads.items()}
    print(params, "n", len(found.series[0].host_ns), f"{time.time() - start:.2f} s", end=" ")
    return reads


def per_step(reads):
    """Ticks a step of each walk, and the brackets."""
    ticks, steps = np.median(reads["ticks"], 0), reads["steps"][0]
    return (ticks - ticks[1]) / np.maximum(1, steps), ticks[:2]


capacity = {}
for path in ("global", "readonly", "image1d_buffer", "constant", "constant_array"):
    for local in (0, 1024, 4096, 8192, 16384, 32768, 47104) if path == "global" else (0,):
        reads = go(question="fit", owner=path, **({"local_bytes": local} if local else {}))
        if reads:
            laps, brackets = per_step(reads)
            laps = laps[7::6]
            print(brackets, " ".join(f"{x // 1024}:{y:.0f}" for x, y in zip(reads["bytes"][0], laps, strict=True)))
            if not local:
                fits = laps <= laps[:4].min() * 1.2
                last = int(np.argmin(fits)) - 1 if not fits.all() else len(fits) - 1
                capacity[path] = int(reads["bytes"][0][max(0, last)])
print(capacity)
for owner in capacity:
    for other in capacity:
        if owner != other and (owner, other) not in (("constant", "constant_array"), ("constant_array", "constant")):
            most = int(1.5 * max(capacity[owner], capacity[other]))
            reads = go(question="paths", owner=owner, other=other, array_bytes=capacity[owner], other_bytes=most)
            if reads:
                laps, _ = per_step(reads)
                names = (*WALKS, *SAME_WALKS)
                print(
                    *[f"{n}:{v:.0f}" for n, v in zip(names, laps, strict=False) if n not in ("lap", "bracket", "bracket_again")]
                )
reads = go(question="units")
if reads:
    ticks = np.median(reads["ticks"], 0).reshape(len(reads["units"][0]) + 1, -1) / reads["steps"][0][0]
    laps = np.median(reads["source_ticks"], 0).reshape(-1, 2) / reads["steps"][0][1]
    print("units", reads["units"][0][:20], "laps", laps[1:4].round())
    print("control", ticks[0][:32].round())
    for row in range(1, 12):
        fast = [int(k) for k in np.flatnonzero(ticks[row] < 0.6 * ticks[0]) if k != row - 1]
        print(row - 1, ticks[row][:24].round(), "fast:", fast)
print(f"{time.time() - began:.1f} s")
