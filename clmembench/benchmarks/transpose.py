"""Matrix transposition directly and through local memory, padded or not: the cost of bank conflicts in a real kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clmembench.benchmarks import (
    BANDWIDTH,
    MEMORY_COPIES,
    axis,
    axis_of,
    benchmark,
    headline_bytes,
    work_group_sizes,
)
from clmembench.model import Device, DeviceInfo, Launch, Metric, Quantity, Skip, Work
from clmembench.resources import kernel_source

TILE_WIDTH = 32  # words
GROUP_ROWS = 8  # rows of work-items in a work-group
PAD_WORDS = {"direct": 0, "tile": 0, "padded": 1}  # extra words in a row of the tile
MAX_SIDE, MAX_CPU_SIDE = 8192, 2048  # words
THROUGHPUT: Metric = replace(BANDWIDTH, name="throughput")


def _matrix_sides(info: DeviceInfo) -> tuple[int, ...]:
    """Sides of the matrices.

    These are the largest power of two, up to a limit, whose matrix is no larger than the headline arrays, and a side just below
    half of it that no tile divides.
    """
    words = max(1, headline_bytes(info) // 4)
    side = min(MAX_CPU_SIDE if info.has_cpu_cores else MAX_SIDE, 1 << (words.bit_length() - 1) // 2)
    return side, max(1, side // 2 - 1)


def _group_shape(info: DeviceInfo) -> tuple[int, int]:
    """Columns and rows of a work-group, as far as the device allows them."""
    # PoCL compiles a work-item's loop over rows of a tile for 23 s on some cores: there it has one row
    (items,) = work_group_sizes(info, TILE_WIDTH * (TILE_WIDTH if info.has_cpu_cores else GROUP_ROWS))
    width = min(TILE_WIDTH, items)
    return width, items // width


@benchmark(
    THROUGHPUT,
    suite="access",
    source="Fang et al. 2017, section 6.2 (padding); Mei & Chu 2015, section 6.2",
    quantities=[Quantity(MEMORY_COPIES, "throughput", beyond_caches=True, limit="a transposition reads or writes by columns")],
    figure_axis="n",
    n=axis_of(_matrix_sides),
    way=axis(*PAD_WORDS),
)
def transpose(device: Device, n: int, way: str) -> Work:
    """Throughput of transposing an n x n matrix of 4-byte words, directly or through a [32][32] or [32][33] local tile.

    direct: rows are read and columns written, or the other way round. tile: rows are read and written; the tile is written by
    rows and read by columns, whose words are all in one of 32 banks. padded: each row of the tile has an extra word, so that
    the words of a column are in all banks. Bytes are those of the matrix, read and written once each. Every element is
    compared. Raises Skip for a matrix that fits in no buffer. A device whose work-groups have fewer than 32 x 8 work-items uses
    smaller work-groups and tiles.
    """
    if way not in PAD_WORDS:
        raise Skip(f"there is no way {way!r} of transposing: choose from {', '.join(PAD_WORDS)}")
    if not 1 <= n < 1 << 16 or 4 * n * n > device.info.max_alloc_bytes:
        raise Skip(f"n={n} is below 1, or its matrix is over this device's largest buffer: choose another n")
    width, rows = _group_shape(device.info)
    kernels = device.build(kernel_source("transpose"), TILE=width, ROWS=rows, STAGED=way != "direct", PAD=PAD_WORDS[way])
    given, turned, wrong = device.alloc(4 * n * n), device.alloc(4 * n * n), device.alloc(4)
    side = np.uint32(n)
    device.run([Launch(kernels["init"], (given, side), (n * n,))])
    tiles = -(-n // width)

    def check() -> None:
        device.upload(wrong, np.zeros(1, np.uint32))
        device.run([Launch(kernels["verify"], (turned, wrong, side), (n * n,))])
        count = int(device.download(wrong, np.uint32, 1)[0])
        assert count == 0, f"{count} of {n * n} elements of the transposed matrix are wrong"
        # the host compares the first row, so that the device does not only check itself
        first = device.download(turned, np.uint32, n)
        wanted = (np.arange(n, dtype=np.uint64) * n * 2654435761 + 1).astype(np.uint32)
        assert np.array_equal(first, wanted), "the first row is not the first column of the source, as the host sees it"

    return Work(
        commands=(Launch(kernels["transpose"], (given, turned, side), (tiles * width, tiles * rows), (width, rows)),),
        nbytes=8 * n * n,
        outputs=((turned, 4 * n * n),),
        check=check,
        notes=() if width == TILE_WIDTH else (f"tiles of {width} x {width}: a work-group has no {TILE_WIDTH} work-items here",),
    )
