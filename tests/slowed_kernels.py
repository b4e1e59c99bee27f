"""Builds of one kernel that are slower by construction: cache_read with loads in each batch that nobody counts."""

from __future__ import annotations

from pathlib import Path

from clmembench.data import kernel_source

LOADS = 32  # of a batch on CPUs
NEXT = "        block = (block * factor + addend) & mask;\n"


def slowed(folder: Path, share: float) -> Path:
    """The folder, with a cache_read.cl that makes that share more loads than it should."""
    text = kernel_source("cache_read")
    assert text.count(NEXT) == 1
    whole, fifths = divmod(round(5 * share * LOADS), 5)
    more = f"#pragma unroll\n        for (uint n = 0; n < {whole}; n++) (void)((const volatile global V*)p)[n % ILP];\n"
    more += f"        if (i % 5 < {fifths}) (void)((const volatile global V*)p)[0];\n"
    folder.mkdir(exist_ok=True)
    (folder / "cache_read.cl").write_text(text.replace(NEXT, more + NEXT))
    return folder


def broken(folder: Path) -> Path:
    """The folder, with a cache_read.cl whose sums are wrong."""
    text = kernel_source("cache_read")
    assert text.count("= sum;") == 1
    folder.mkdir(exist_ok=True)
    (folder / "cache_read.cl").write_text(text.replace("= sum;", "= sum + (V)(1);"))
    return folder
