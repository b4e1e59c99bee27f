"""Builds of one kernel that are slower by construction, or wrong: stream with loads that nobody counts."""

from __future__ import annotations

from pathlib import Path

from clmembench.resources import kernel_source

PLAIN = "    const size_t i = get_global_id(0);\n    STORE(VALUE(i), &a[i]);\n"
TRIAD = 3  # arrays that move; of them two are loaded once more by each extra load


def slowed(folder: Path, share: float) -> Path:
    """The folder, with a stream.cl whose triad, of a power of two of vectors, moves that share more data: in as
    many of a hundred work-groups values of other places are loaded too, and their difference to themselves is added, which is 0
    but for NaN, so that no compiler leaves it out."""
    text = kernel_source("stream")
    assert text.count(PLAIN) == 1
    whole, rest = divmod(round(100 * share * TRIAD / 2), 100)
    more = "    const size_t i = get_global_id(0);\n    V v = VALUE(i);\n"
    for number in range(whole + 1):
        least = rest if number == whole else 100
        more += f"    if (get_group_id(0) % 100 < {least}) {{\n"
        more += f"        const size_t j = (i + {number + 1} * (n / {whole + 2})) & (n - 1);\n"
        more += "        const V w = VALUE(j);\n        v += w - w;\n    }\n"
    return _written(folder, text.replace(PLAIN, more + "    STORE(v, &a[i]);\n"))


def broken(folder: Path) -> Path:
    """The folder, with a stream.cl whose results are wrong."""
    text = kernel_source("stream")
    assert text.count(PLAIN) == 1
    return _written(folder, text.replace(PLAIN, PLAIN.replace("VALUE(i),", "VALUE(i) + (V)(1),")))


def _written(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "stream.cl").write_text(text, encoding="utf-8")
    return folder
