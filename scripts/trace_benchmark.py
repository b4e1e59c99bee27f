"""Launches one kernel of a benchmark's point once, on Oclgrind's device, as the benchmark launches it on the device of a run.

Usage: python scripts/trace_benchmark.py RUN OPERATIONS SIZES.json BENCHMARK PARAMS_AS_JSON
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clmembench.benchmarks import named
from clmembench.model import Command, DeviceInfo, Launch, MemoryKind, Slope, Work
from clmembench.results import jsonl
from clmembench.runtimes.opencl.device import OpenCLDevice
from clmembench.runtimes.opencl.info import simulator_devices


class TracedDevice(OpenCLDevice):
    """The simulator with the numbers of another device, from which benchmarks choose their launches. Commands that prepare a
    launch do not run, since it is traced for its addresses."""

    def __init__(self, info: DeviceInfo, handle: Any) -> None:
        super().__init__(info, handle)
        self.sizes: list[int] = []  # of buffers, in the order in which the simulator numbers them

    def alloc(self, nbytes: int, kind: MemoryKind = "device") -> Any:
        self.sizes.append(nbytes)
        return super().alloc(nbytes, kind)

    def run(self, commands: Sequence[Command]) -> None:
        """Prepare nothing."""


def main(run: Path, ops: int, sizes: Path, name: str, params: str) -> None:
    """Launch the last kernel of the point, with so many operations of a slope, and write the sizes of all buffers."""
    (simulator, handle), *_ = simulator_devices()
    info = jsonl.read(run).header.device
    device = TracedDevice(replace(info, features=simulator.features), handle)
    work = named(name).prepare(device, **json.loads(params))
    work = work.at(ops) if isinstance(work, Slope) else work
    assert isinstance(work, Work)
    launch = work.commands[-1]
    assert isinstance(launch, Launch)
    sizes.write_text(json.dumps(device.sizes))
    OpenCLDevice.run(device, [launch])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
