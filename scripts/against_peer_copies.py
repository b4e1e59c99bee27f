"""Compares device_link of a stored run with CUDA's cudaMemcpyPeerAsync on the same devices, by CuPy: GB/s, us and their ratio.

Each copy is followed by a kernel on the target that reads the last word, as in device_link; contents are verified.
Usage: python scripts/against_peer_copies.py RUN.jsonl, on the machine of the run and right after it
"""

from __future__ import annotations

import statistics
import sys
import time
from itertools import permutations
from pathlib import Path

from clmembench.report import frame
from clmembench.results import jsonl

SAMPLES = 16
READ_LAST = 'extern "C" __global__ void read_last(const unsigned *in, unsigned last, unsigned *out) { out[0] = in[last]; }'
Params = tuple[str, int, int, int]  # traffic, sender, receiver, bytes


def main(path: str) -> None:
    """Measures every point of the run by CUDA and prints a line for each, with the best of our ways."""
    run = jsonl.read(Path(path))
    points: dict[Params, dict[str, float]] = {}
    for row in frame.rows(run, None):
        value = row.value
        if value.benchmark == "device_link" and value.metric == "device_link_bandwidth" and value.median is not None:
            p = value.params
            key = str(p["traffic"]), int(p["sender"]), int(p["receiver"]), int(p["array_bytes"])
            points.setdefault(key, {})[str(p["by"])] = value.median
    devices = 1 + max((max(sender, receiver) for _, sender, receiver, _ in points), default=0)
    cuda = PeerCopies(devices)
    print("traffic  pair   bytes        CUDA GB/s  CUDA us    ours GB/s (ratio)")
    for (traffic, sender, receiver, nbytes), ours in points.items():
        one = (sender, receiver)
        pairs = {"one": [one], "both": [one, one[::-1]], "all": list(permutations(range(devices), 2))}[traffic]
        ns = cuda.median_ns(pairs, nbytes // 4 * 4)
        rate = len(pairs) * nbytes / ns
        found = ", ".join(f"{by} {gb_s:.4g} ({gb_s / rate:.4g})" for by, gb_s in ours.items())
        print(f"{traffic:8} {sender}>{receiver}    {nbytes:<12} {rate:<10.4g} {ns / 1e3:<10.4g} {found}", flush=True)


class PeerCopies:
    """Copies between the first devices by CUDA, with access between all pairs switched on where they have it."""

    def __init__(self, devices: int) -> None:
        import cupy

        self._cupy, self._runtime = cupy, cupy.cuda.runtime
        for one, other in permutations(range(devices), 2):
            able = bool(self._runtime.deviceCanAccessPeer(one, other))
            with cupy.cuda.Device(one):
                if able:
                    self._runtime.deviceEnablePeerAccess(other)
            print(f"device {one} accesses device {other}: {able}")

    def median_ns(self, pairs: list[tuple[int, int]], nbytes: int) -> float:
        """Median time of one copy for each pair, all at once. Raises ValueError for wrong contents."""
        cupy, routes = self._cupy, []
        for number, (sender, receiver) in enumerate(pairs):
            with cupy.cuda.Device(sender):
                sent = cupy.arange(nbytes // 4, dtype=cupy.uint32) * cupy.uint32(2654435761) + cupy.uint32(number)
                cupy.cuda.get_current_stream().synchronize()
            with cupy.cuda.Device(receiver):
                received, last = cupy.zeros(nbytes // 4, cupy.uint32), cupy.zeros(1, cupy.uint32)
                stream, kernel = cupy.cuda.Stream(non_blocking=True), cupy.RawKernel(READ_LAST, "read_last")
                cupy.cuda.get_current_stream().synchronize()
            routes.append((sender, receiver, sent, received, last, stream, kernel))
        took = []
        for _ in range(SAMPLES + 2):
            started = time.perf_counter_ns()
            for sender, receiver, sent, received, _, stream, _ in routes:
                self._runtime.memcpyPeerAsync(received.data.ptr, receiver, sent.data.ptr, sender, nbytes, stream.ptr)
            for _, receiver, _, received, last, stream, kernel in routes:
                with cupy.cuda.Device(receiver):
                    kernel((1,), (1,), (received, cupy.uint32(nbytes // 4 - 1), last), stream=stream)
            for _, receiver, _, _, _, stream, _ in routes:
                with cupy.cuda.Device(receiver):
                    stream.synchronize()
            took.append(time.perf_counter_ns() - started)
        for _, _, sent, received, _, _, _ in routes:
            if not bool((cupy.asnumpy(sent) == cupy.asnumpy(received)).all()):
                raise ValueError(f"wrong contents after a copy of {nbytes} B")
        return statistics.median(took[2:])


if __name__ == "__main__":
    main(sys.argv[1])
