"""Synthetic hyperspectral cubes: smooth spectra mixed over space, independent noise in each band, 8 bits a value."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clmembench.studies.mnf.benchmarks.numpy_mnf import on_all_cpus

Floats = npt.NDArray[np.float32]
AVIRIS_BANDS = 224
MATERIALS = 8
PATCH_PIXELS = 24  # distance over which materials change
NOISE_RANGE = (1.5, 4.0)  # of a band's standard deviation in quantisation steps: below 1 quantisation dominates
ABSORPTION_BANDS = ((0.46, 0.04), (0.62, 0.05))  # of water: centre and width, with little signal and the most noise
MAX_BANDS = 1024  # half a million pairs
MAX_PIXELS = 1 << 23  # sums of so many products of 16-bit values, times that number, are exact in 64 bits


@dataclass(frozen=True, slots=True)
class CubeSize:
    """Pixels across, lines, and bands of a cube."""

    width: int
    height: int
    bands: int

    @property
    def pixels(self) -> int:
        """Pixels of one band."""
        return self.width * self.height

    def __str__(self) -> str:
        return f"{self.width}x{self.height}x{self.bands}"


def parse_cube_size(text: str) -> CubeSize:
    """The size written WIDTHxHEIGHT, with 224 bands, or WIDTHxHEIGHTxBANDS. Raises ValueError for other text, and for a size
    that is too small to have a covariance or too large for exact sums."""
    found = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})(?:x([0-9]{1,4}))?", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size of a cube: write WIDTHxHEIGHT such as 614x1087, or WIDTHxHEIGHTxBANDS")
    size = CubeSize(int(found[1]), int(found[2]), int(found[3] or AVIRIS_BANDS))
    if size.bands < 2 or min(size.width, size.height) < 3 or size.pixels <= 2 * size.bands:
        raise ValueError(f"{text!r}: a cube has 2 bands, 3 x 3 pixels and over twice as many pixels as bands at least")
    if size.bands > MAX_BANDS:
        raise ValueError(f"{text!r}: a cube has at most {MAX_BANDS} bands")
    if size.pixels > MAX_PIXELS:
        raise ValueError(f"{text!r}: a band has at most {MAX_PIXELS} pixels, for which sums are exact")
    return size


def make_cube(size: CubeSize, seed: int) -> npt.NDArray[np.uint8]:
    """A cube of shape (bands, height, width), which the seed determines.

    It resembles images of AVIRIS: a few materials whose spectra are smooth over the bands, in abundances that change smoothly
    over the image and sum to one; uncorrelated noise whose strength differs between bands and is greatest where the air
    absorbs.
    """
    rng = np.random.default_rng([seed, size.bands])
    spectra = _spectra(size.bands, rng)
    amounts = _abundances(size, rng)
    made = np.empty((size.bands, size.height, size.width), np.uint8)
    strengths = rng.uniform(*NOISE_RANGE, size.bands).astype(np.float32)

    def make_band(band: int) -> None:
        own = np.random.default_rng([seed, size.bands, band])
        noise = own.standard_normal((size.height, size.width), np.float32)
        noise *= strengths[band]
        values = np.tensordot(spectra[:, band], amounts, 1)
        values += noise
        np.clip(np.rint(values, out=values), 0, 255, out=values)
        made[band] = values

    on_all_cpus(make_band, range(size.bands))
    return made


def _spectra(bands: int, rng: np.random.Generator) -> Floats:
    """The spectrum of each material, shape (MATERIALS, bands), from 25 to 225."""
    at = np.linspace(0, 1, bands)
    middles, widths = rng.uniform(0, 1, (2, MATERIALS, 5, 1))
    heights = rng.uniform(-1, 1, (MATERIALS, 5, 1))
    curves = (heights * np.exp(-(((at - middles) / (0.08 + 0.3 * widths)) ** 2))).sum(axis=1)
    low, high = curves.min(), curves.max()
    curves = (curves - low) / (high - low)
    for middle, width in ABSORPTION_BANDS:
        curves *= 1 - 0.85 * np.exp(-(((at - middle) / width) ** 2))
    return np.asarray(25 + 200 * curves, np.float32)


def _abundances(size: CubeSize, rng: np.random.Generator) -> Floats:
    """The abundance of each material, shape (MATERIALS, height, width): smooth fields that sum to one at each pixel."""
    down, along = _interpolation(size.height), _interpolation(size.width)
    fields = 2.5 * rng.standard_normal((MATERIALS, down.shape[1], along.shape[1])).astype(np.float32)
    exponents = np.exp(np.einsum("yi,mij,xj->myx", down, fields, along, optimize=True))
    return np.asarray(exponents / exponents.sum(axis=0), np.float32)


def _interpolation(length: int) -> Floats:
    """The matrix that interpolates linearly between coarse points, shape (length, points)."""
    points = length // PATCH_PIXELS + 2
    at = np.linspace(0, points - 1, length, endpoint=False)
    first = at.astype(np.int64)
    matrix = np.zeros((length, points), np.float32)
    matrix[np.arange(length), first] = 1 - (at - first)
    matrix[np.arange(length), first + 1] = at - first
    return matrix
