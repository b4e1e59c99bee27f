"""Memory of NUMA nodes on Linux: which nodes have some, where new pages go, and on which node pages are."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clmembench.host.cpu_topology import listed

NODES = Path("/sys/devices/system/node")
STATUS = Path("/proc/self/status")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
CALL_NUMBERS = {"x86_64": (237, 238, 279, 28), "aarch64": (235, 237, 239, 233)}  # mbind, set_mempolicy, move_pages, madvise
DEFAULT, BIND = 0, 2  # MPOL_*
DONT_NEED = 4  # MADV_DONTNEED
STRICT_AND_MOVE = 3  # MPOL_MF_STRICT | MPOL_MF_MOVE
MASK_BITS = 1024  # nodes that Linux can have
MAX_QUERIED_PAGES = 1 << 16  # a sample of larger arrays


class NodeError(Exception):
    """The system refuses a placement, or does not report one; the message says which."""


def memory_nodes(root: Path = NODES, status: Path = STATUS) -> tuple[int, ...]:
    """The nodes with memory that this process may use; node 0 alone where the system does not report any."""
    try:
        nodes = set(listed((root / "has_memory").read_text(encoding="ascii")))
        allowed = [line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("Mems_allowed_list:")]
        return tuple(sorted(nodes & set(listed(allowed[0].partition(":")[2])))) or (0,)
    except (OSError, ValueError, IndexError):
        return (0,)


def cpus_of(node: int, root: Path = NODES) -> tuple[int, ...]:
    """The CPUs of a node; none of a node that is memory alone."""
    try:
        return listed((root / f"node{node}" / "cpulist").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ()


@contextmanager
def running_on(node: int) -> Iterator[None]:
    """This thread runs on a CPU of the node, so that pages which it touches first are there. Raises NodeError."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    try:
        os.sched_setaffinity(0, cpus_of(node) or before)
    except (OSError, AttributeError) as error:
        raise NodeError(f"this process may not run on the CPUs of node {node}: {error}") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def allocating_on(node: int) -> Iterator[None]:
    """New pages of this thread are on the node. Raises NodeError."""
    _call(1, f"set_mempolicy for node {node}", BIND, _mask(node), ctypes.c_ulong(MASK_BITS))
    try:
        yield
    finally:
        _call(1, "set_mempolicy", DEFAULT, None, ctypes.c_ulong(0))


def renew_pages(address: int, nbytes: int) -> None:
    """Give up the whole pages of a range, their contents and their policy, so that the next touch decides where they are: a
    driver's memory may be what it freed before. Raises NodeError."""
    first, count = _whole_pages(address, nbytes)
    place, size = ctypes.c_void_p(first), ctypes.c_ulong(count * PAGE_BYTES)
    _call(0, "mbind", place, size, DEFAULT, None, ctypes.c_ulong(0), 0)
    _call(3, "madvise", place, size, DONT_NEED)


def bind_pages(address: int, nbytes: int, node: int) -> None:
    """Move the whole pages of a range to the node, and have those that are not touched yet come there. Raises NodeError."""
    first, count = _whole_pages(address, nbytes)
    place, size = ctypes.c_void_p(first), ctypes.c_ulong(count * PAGE_BYTES)
    more = (BIND, _mask(node), ctypes.c_ulong(MASK_BITS), STRICT_AND_MOVE)
    _call(0, f"mbind to node {node}", place, size, *more)


def pages_by_node(address: int, nbytes: int) -> Counter[int]:
    """The number of whole pages of a range on each node, of a sample of large ranges; negative numbers are error codes, as of
    pages that were never touched. Raises NodeError."""
    first, count = _whole_pages(address, nbytes)
    step = -(-count // MAX_QUERIED_PAGES)
    places = range(first, first + count * PAGE_BYTES, step * PAGE_BYTES)
    pages, nodes = (ctypes.c_void_p * len(places))(*places), (ctypes.c_int * len(places))()
    _call(2, "move_pages", 0, ctypes.c_ulong(len(places)), pages, None, nodes, 0)
    return Counter(nodes)


def _whole_pages(address: int, nbytes: int) -> tuple[int, int]:
    """The address of the first whole page of a range, and how many there are. Raises NodeError where there is none."""
    first, last = -(-address // PAGE_BYTES) * PAGE_BYTES, (address + nbytes) // PAGE_BYTES * PAGE_BYTES
    if last <= first:
        raise NodeError(f"{nbytes} B have no whole page of {PAGE_BYTES} B: raise --size")
    return first, (last - first) // PAGE_BYTES


def _mask(node: int) -> ctypes.Array[ctypes.c_ulong]:
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (MASK_BITS // bits))()
    mask[node // bits] = 1 << node % bits
    return mask


def _call(which: int, what: str, *args: object) -> None:
    """One of the four system calls, which the C library has no functions for. Raises NodeError."""
    numbers = CALL_NUMBERS.get(platform.machine()) if platform.system() == "Linux" else None
    if numbers is None:
        raise NodeError("placing pages on NUMA nodes is known for Linux on x86-64 and ARM only")
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(ctypes.c_long(numbers[which]), *args) < 0:
        code = ctypes.get_errno()
        raise NodeError(f"{what} fails: {errno.errorcode.get(code, code)} ({os.strerror(code)})")
