"""The paths from a compute unit to memory: levels by the memory space that they were reached through."""

from __future__ import annotations

from dataclasses import dataclass

from clmembench.model import CacheLevel, Hierarchy
from clmembench.sanitize import line

HEADINGS = {
    "readonly": "Read-only global memory",
    "private": "Private memory",
    "constant": "Constant memory",
    "constant_array": "Constant arrays",
    "image1d_buffer": "Images over a buffer",
    "image1d": "One-dimensional images",
    "image2d": "Two-dimensional images",
}


@dataclass(frozen=True, slots=True)
class Path:
    """The levels that loads from one memory space meet, from the nearest on; `group` stands before their names."""

    space: str
    heading: str
    group: str
    levels: tuple[CacheLevel, ...]


def main_space(hierarchy: Hierarchy) -> str:
    """Common prefix of the spaces of the levels between a compute unit and memory: global, unless nothing was found there."""
    if not hierarchy.levels or any(level.space.startswith("global") for level in hierarchy.levels):
        return "global"
    return hierarchy.levels[0].space


def main_levels(hierarchy: Hierarchy) -> tuple[CacheLevel, ...]:
    """The levels from the nearest cache to memory, each beyond the one before it."""
    space = main_space(hierarchy)
    return tuple(level for level in hierarchy.levels if level.space.startswith(space))


def other_paths(hierarchy: Hierarchy) -> list[Path]:
    """Every other path: it begins at the compute unit too, and none of its levels lies beyond memory."""
    main = main_levels(hierarchy)
    rest = [(level, "") for level in hierarchy.levels if level not in main]
    rest += [(level, "constant") for level in hierarchy.constant] + [(level, "image") for level in hierarchy.image]
    found: dict[tuple[str, str], list[CacheLevel]] = {}
    for level, group in rest:
        found.setdefault((level.space, group or level.space), []).append(level)
    return [Path(space, HEADINGS.get(space, line(space)), group, tuple(levels)) for (space, group), levels in found.items()]
