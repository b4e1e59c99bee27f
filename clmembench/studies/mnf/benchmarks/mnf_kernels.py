"""Launches of the versions of MNF's kernels, for a single step and for the whole rotation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clmembench.model import Array, Buffer, Device, DeviceInfo, Launch, Skip
from clmembench.resources import kernel_source
from clmembench.studies.mnf.benchmarks.cubes import CubeSize
from clmembench.studies.mnf.benchmarks.numpy_mnf import FilterName

COMPONENTS = 32  # of Z: "in dozens" (section 8.2.3)
TILE_BANDS, STAGED_PIXELS = 16, 64  # pairs of bands of a work-group's tile; pixels staged at a time
SMALL_TILE_BANDS = 8  # where the other work-group is too large
TRANSFORM_GROUP = (32, 8)  # pixels, components; fewer where that is too large
STAGED_BANDS = 32  # bands staged at a time
GROUPS_PER_UNIT, GROUPS_PER_CPU_UNIT = 16, 4  # of a covariance
BANK_BYTES = 4


@dataclass(frozen=True, slots=True)
class FilterForm:
    """One version of the filter: median or mean, the median by a sorted array or by a network of exchanges, whether pixels are
    staged in local memory, and the columns and rows of a work-group."""

    kind: FilterName
    network: bool
    staged: bool
    group: tuple[int, int]


FILTERS: Mapping[str, FilterForm] = {
    "V0": FilterForm("median", False, False, (128, 1)),
    "V0n": FilterForm("median", True, False, (128, 1)),
    "V1": FilterForm("mean", False, False, (128, 1)),
    "V2": FilterForm("mean", False, True, (128, 1)),
    "V3": FilterForm("mean", False, True, (32, 4)),
}
COVARIANCES = ("V0", "V1", "V2", "V3", "V4")
# where T lies (PLACE of mnf_transform.cl: global, constant by pointer, constant as an array of program scope); is X staged?
TRANSFORMS: Mapping[str, tuple[int, bool]] = {
    "V0": (0, False),
    "V1": (2, False),
    "V2": (2, True),
    "V1p": (1, False),
    "V2p": (1, True),
}


def filter_launch(device: Device, version: str, cube: Buffer, noise: Buffer, size: CubeSize) -> Launch:
    """Step S1: the noise of 16 bits from a cube of 8 bits a value."""
    form = FILTERS[version]
    columns, rows = form.group
    _fit_group(device.info, columns * rows)
    kernels = device.build(
        kernel_source("mnf_filter"),
        MEDIAN=0 if form.kind == "mean" else 2 if form.network else 1,
        STAGED=form.staged,
        GROUP_COLUMNS=columns,
        GROUP_ROWS=rows,
    )
    shape = (_round_up(size.width, columns), _round_up(size.height, rows), size.bands)
    args = (cube, noise, np.int32(size.width), np.int32(size.height))
    return Launch(kernels["filter"], args, shape, (columns, rows, 1))


@dataclass(frozen=True, slots=True)
class CovarianceSums:
    """The launches that compute the sums of a covariance, and the buffers of each band's sum and of the products i <= j.
    `between` are buffers, with their bytes, that earlier launches write for later ones."""

    commands: tuple[Launch, ...]
    totals: Buffer
    products: Buffer
    bands: int
    between: tuple[tuple[Buffer, int], ...]

    @property
    def outputs(self) -> tuple[tuple[Buffer, int], ...]:
        """All buffers that are written, with their bytes."""
        return *self.between, (self.totals, 8 * self.bands), (self.products, 8 * self.bands**2)

    def read(self, device: Device) -> tuple[Array, Array]:
        """Both sums as 64-bit integers, shapes (bands,) and (bands, bands)."""
        upper = np.triu(device.download(self.products, np.int64, self.bands**2).reshape(self.bands, -1))
        return device.download(self.totals, np.int64, self.bands), upper + np.triu(upper, 1).T


def covariance_launches(device: Device, version: str, rows: Buffer, dtype: np.dtype[Any], size: CubeSize) -> CovarianceSums:
    """Steps S2 and S4: sums of `rows`, one a band, of 8-bit data or 16-bit noise."""
    tile = TILE_BANDS if device.info.max_work_group >= TILE_BANDS**2 else SMALL_TILE_BANDS
    items = tile**2
    _fit_group(device.info, items)
    bands, pixels, number = size.bands, size.pixels, int(version[1:])
    kernels = device.build(
        kernel_source("mnf_covariance"),
        T={1: "uchar", 2: "short"}[dtype.itemsize],
        VERSION=number,
        TILE=tile,
        DEPTH=STAGED_PIXELS,
        PAD=BANK_BYTES // dtype.itemsize if number == 4 else 0,
    )
    lines = bands if number < 3 else -(-bands // tile)
    pairs = np.stack(np.triu_indices(lines), axis=1).astype(np.uint16)
    slices, each = slice_pixels(device.info, len(pairs), pixels)
    paired = device.alloc(pairs.nbytes)
    device.upload(paired, pairs)
    sizes = (8 * items * len(pairs) * slices if number == 0 else 8, 8 * bands**2 * slices)
    partial, parts = (device.alloc(nbytes) for nbytes in sizes)
    totals, products = device.alloc(8 * bands), device.alloc(8 * bands**2)
    counts = [np.uint32(n) for n in (bands, pixels, each)]
    group = (items, 1) if number < 3 else (tile, tile)
    shape = (len(pairs) * group[0], slices * group[1])
    return CovarianceSums(
        (
            Launch(kernels["band_sums"], (rows, totals, np.uint32(pixels)), (bands * items,), (items,)),
            Launch(kernels["covariance"], (rows, paired, partial, parts, *counts), shape, group),
            Launch(kernels["add_slices"], (parts, products, np.uint32(bands), np.uint32(slices)), (bands, bands)),
        ),
        totals,
        products,
        bands,
        tuple(zip((partial, parts), sizes, strict=True)),
    )


def slice_pixels(info: DeviceInfo, pairs: int, pixels: int) -> tuple[int, int]:
    """The number of slices of the pixels, which gives every compute unit several work-groups, and the pixels of a slice, in
    whole tiles."""
    wanted = (GROUPS_PER_CPU_UNIT if info.has_cpu_cores else GROUPS_PER_UNIT) * info.compute_units
    count = max(1, min(-(-wanted // pairs), -(-pixels // STAGED_PIXELS)))
    each = _round_up(-(-pixels // count), STAGED_PIXELS)
    return -(-pixels // each), each


def transform_launch(
    device: Device, version: str, rows: Buffer, matrix: Buffer, values: Array, z: Buffer, size: CubeSize
) -> Launch:
    """Step S8: components of `rows` by T^T, which lies in `matrix`, one row a component; for an array of program scope its
    `values` are needed too."""
    place, staged = TRANSFORMS[version]
    pixels, most = TRANSFORM_GROUP
    components = max(1, min(most, device.info.max_work_group // pixels))
    _fit_group(device.info, pixels * components)
    if place and values.nbytes > device.info.constant_bytes:
        raise Skip(f"T has {values.nbytes} B, and a constant buffer at most {device.info.constant_bytes} B")
    cells = ",".join(f"{value.hex()}f" for value in values.ravel().astype(float).tolist())
    text = f"constant float rotation_array[{values.size}] = {{{cells}}};\n" if place == 2 else ""
    kernels = device.build(
        text + kernel_source("mnf_transform"),
        PLACE=place,
        STAGED=staged,
        GROUP_PIXELS=pixels,
        GROUP_COMPONENTS=components,
        DEPTH=STAGED_BANDS,
    )
    shape = (_round_up(size.pixels, pixels), _round_up(len(values), components))
    counts = [np.uint32(n) for n in (size.bands, size.pixels, len(values))]
    return Launch(kernels["transform"], (rows, matrix, z, *counts), shape, (pixels, components))


def _fit_group(info: DeviceInfo, items: int) -> None:
    if items > info.max_work_group:
        raise Skip(f"its work-groups of {items} are over this device's largest, {info.max_work_group}")


def _round_up(count: int, to: int) -> int:
    return -(-count // to) * to
