"""Boots an emulated host of two sockets and three NUMA nodes, the last of memory alone, and places pages there as numa does.

The guest has this host's files, read-only, by 9p. It verifies on which node the pages of each policy and node are, and prints
the placements of two and three threads. Its times say nothing. Takes a minute.
Usage: python scripts/numa_guest.py ROOT
       ROOT has boot/vmlinuz-* and lib/modules (a kernel package, unpacked) and bin/busybox (static); qemu-system-x86_64 is on
       PATH, and its files are installed, or named by QEMU_OPTIONS (-L FOLDER)
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

MODULES = ("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci", "netfs", "fscache", "9pnet",
           "9pnet_virtio", "9p")  # fmt: skip
GUEST_LIMIT_S = 240
INSIDE = "--inside"
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev /mnt
$b mount -t devtmpfs d /dev
for m in {modules}; do [ -e /$m.ko ] && $b insmod /$m.ko; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /mnt
$b mount -t proc p /mnt/proc; $b mount -t sysfs s /mnt/sys; $b mount -t devtmpfs d /mnt/dev
$b mkdir -p /mnt/dev/shm; $b mount -t tmpfs t /mnt/dev/shm
$b chroot /mnt /usr/bin/env HOME=/dev/shm TMPDIR=/dev/shm POCL_CACHE_DIR=/dev/shm PYTHONDONTWRITEBYTECODE=1 {command}
$b poweroff -f
"""
NODES = ("node,nodeid=0,cpus=0-1,memdev=m0", "node,nodeid=1,cpus=2-3,memdev=m1", "node,nodeid=2,memdev=m2")


def main(root: Path) -> int:
    """Boots the guest with this program as its only task, and prints what it prints."""
    kernel = max((root / "boot").glob("vmlinuz-*"))
    modules = root / "lib" / "modules" / kernel.name.removeprefix("vmlinuz-")
    program = f"PYTHONPATH={Path(__file__).parents[1]} {sys.executable} {Path(__file__).resolve()} {INSIDE}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        (folder / "bin" / "busybox").write_bytes((root / "bin" / "busybox").read_bytes())
        for module in MODULES:
            for path in modules.rglob(f"{module}.ko"):
                (folder / path.name).write_bytes(path.read_bytes())
        (folder / "init").write_text(INIT.format(modules=" ".join(MODULES), command=program), encoding="utf-8")
        for file in ("init", "bin/busybox"):
            (folder / file).chmod(0o755)
        names = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))).encode()
        pack = [str(folder / "bin" / "busybox"), "cpio", "-o", "-H", "newc"]
        packed = subprocess.run(pack, input=names, capture_output=True, cwd=folder, check=True).stdout
        (folder / "initrd").write_bytes(gzip.compress(packed))
        memory = [f"memory-backend-ram,id=m{node},size={size}M" for node, size in enumerate((1792, 1792, 1024))]
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "4608M"]
        command += ["-smp", "4,sockets=2,cores=2,threads=1", *(word for one in memory for word in ("-object", one))]
        command += [word for node in NODES for word in ("-numa", node)]
        command += ["-kernel", str(kernel), "-initrd", str(folder / "initrd"), "-append", "console=ttyS0 quiet rdinit=/init"]
        command += [
            "-nographic",
            "-no-reboot",
            "-nodefaults",
            "-serial",
            "stdio",
            "-device",
            "virtio-9p-pci,fsdev=h,mount_tag=host",
        ]
        command += ["-fsdev", "local,id=h,path=/,security_model=none,readonly=on,multidevs=remap"]
        return subprocess.run(
            [*command, *os.environ.get("QEMU_OPTIONS", "").split()], timeout=GUEST_LIMIT_S, check=False
        ).returncode


def inside() -> None:
    """The guest's task."""
    from clmembench.benchmarks import named
    from clmembench.host import cpu_topology, memory_nodes
    from clmembench.model import Skip, Work
    from clmembench.plan.selection import Selection
    from clmembench.runtimes import runtime

    topology, nodes = cpu_topology.read(), memory_nodes.memory_nodes()
    print("nodes with memory:", nodes, "CPUs:", [memory_nodes.cpus_of(node) for node in nodes])
    info = replace(runtime("opencl").devices()[0], array_bytes=2 << 20)
    for place in Selection(topology=topology, axes={"compute_units": (2, 3)}).sweep(info):
        print(place.compute_units, "threads", place.placement, place.cpus)
    print("each node's:", [(place.placement, place.cpus) for place in Selection(topology=topology).node_places(info)])
    device = runtime("opencl").open(info)
    for node in (*nodes, *reversed(nodes)):  # again, in memory that the driver had freed
        for policy in ("mbind", "first_touch") if memory_nodes.cpus_of(node) else ("mbind",):
            try:
                work = named("numa_bandwidth").prepare(device, policy=policy, memory_node=node)
                assert isinstance(work, Work)
                device.run(work.commands)
                work.verify()
                print(f"node {node}, {policy}: verified", flush=True)
            except Skip as skip:
                print(f"node {node}, {policy}: NOT THERE: {skip}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == [INSIDE]:
        inside()
    else:
        sys.exit(main(Path(sys.argv[1])))
