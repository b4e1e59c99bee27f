"""The block diagram of an H200, whose numbers are those of the table of its hierarchy, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from scripts.gallery.run_numbers import inferred

TABLE = "h200-hierarchy"
WIDTH, HEIGHT, LINE = 1000, 512, 19
FILLS = {"unit": "#eef2ff", "cache": "#dbe4ff", "tlb": "#fff4d6", "l2": "#d3f0e3", "memory": "#f3e3f7", "cluster": "#ffffff"}
STYLE = "text{font:14px sans-serif;fill:#1b1f3b}.t{font-weight:600}.s{font-size:12.5px}rect{stroke:#5c6798;stroke-width:1.2}"


def draw(figure: Path, runs: Sequence[Path]) -> None:
    """The diagram. The table is made of the runs."""
    parts = "\n".join(_parts())
    figure.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff" style="stroke:none"/>\n{parts}\n</svg>\n',
        encoding="utf-8",
    )


def _value(level: str, name: str, space: str = "global") -> str:
    return str(inferred(TABLE, level, name, space))


def _parts() -> Iterator[str]:
    clusters = _value("sharing", "units of a constant cache", "").split(" + ")
    units = sum(map(int, clusters))
    yield from _box(10, 10, 490, 340, "unit", f"Compute unit, one of {units}", [])
    yield from _box(
        24, 44, 296, 152, "cache", "L1",
        [
            f"{_value('L1', 'size')} · {_value('L1', 'latency in cycles')} · {_value('L1', 'latency in ns')}",
            f"lines of {_value('L1', 'line')}, filled by {_value('L1', 'sector')}",
            f"{_value('L1', 'ways')} ways, {_value('L1', 'sets')} hashed sets",
            f"replaces by {_value('L1', 'policy')}",
            "one storage with local memory and images",
        ],
    )  # fmt: skip
    yield from _box(
        24, 206, 296, 58, "cache", "Local memory",
        [f"{_value('local', 'latency in cycles', 'local')} · {_value('local', 'latency in ns', 'local')}"],
    )  # fmt: skip
    constant = f"{_value('L1', 'size', 'constant_array')}, lines of {_value('L1', 'line', 'constant_array')}"
    yield from _box(
        24, 274, 296, 64, "cache", "Constants", [f"{constant} · {_value('L1', 'latency in cycles', 'constant_array')}"]
    )
    yield from _box(
        334, 44, 152, 152, "tlb", "L1 TLB",
        [
            f"{_value('L1 TLB', 'entries')} entries",
            f"of {_value('L1 TLB', 'page')}",
            f"reach {_value('L1 TLB', 'reach')}",
            f"miss + {_value('L1 TLB', 'penalty in cycles')}",
        ],
    )  # fmt: skip
    yield from _box(10, 362, 490, 140, "unit", f"{len(clusters)} clusters (GPC), by their compute units", [])
    width = 466 / len(clusters)
    for number, count in enumerate(clusters):
        yield _rectangle(22 + number * width, 396, width - 8, 34, "cluster")
        yield _text(22 + number * width + width / 2 - 12, 418, count, "t")
    yield _text(22, 454, "Each shares a second cache of constants:")
    yield _text(22, 476, f"{_value('L2', 'size', 'constant_array')} · {_value('L2', 'latency in cycles', 'constant_array')}")
    l2 = "global_cg"
    yield from _box(
        530, 10, 460, 340, "l2", f"L2, {_value('L2', 'size', l2)} in {_value('L2', 'partitions', l2)} partitions",
        [
            f"lines of {_value('L2', 'line', l2)}, filled by {_value('L2', 'sector', l2)} · {_value('L2', 'ways', l2)} ways",
            f"compute units near each: {_value('L2', 'units each', l2)}",
        ],
    )  # fmt: skip
    near = f"{_value('L2', 'latency in cycles', l2)} · {_value('L2', 'latency in ns', l2)}"
    held = [_value("L2", "near", l2), near, "also holds copies", "of the far one's lines"]
    yield from _box(546, 100, 200, 140, "cluster", "Near partition", held)
    far = [_value("L2", "latency far in cycles", l2), "once the near one", "has lost its copy"]
    yield from _box(774, 100, 200, 140, "cluster", "Far partition", far)
    yield '<path d="M746 170H770M764 165l7 5l-7 5" fill="none" stroke="#5c6798" stroke-width="1.5"/>'
    near_range, far_range = (inferred(TABLE, "L2", f"latency {part}in cycles", l2).interval for part in ("", "far "))
    yield _text(546, 272, "Over compute units and lines:")
    yield _text(546, 296, f"near {near_range} cycles, far {far_range} cycles")
    both = [f"Both, in a random lap: {_value('DRAM', 'latency in cycles')} · {_value('DRAM', 'latency in ns')}"]
    yield from _box(530, 362, 460, 140, "memory", "Memory", both)
    for place, name in ((546, "near"), (774, "far")):
        yield from _box(place, 426, 200, 62, "cluster", f"{name.title()} half", [_value("DRAM", f"latency {name} in cycles")])


def _box(x: float, y: float, width: float, height: float, kind: str, title: str, lines: Sequence[str]) -> Iterator[str]:
    yield _rectangle(x, y, width, height, kind)
    yield _text(x + 12, y + 22, title, "t")
    for number, line in enumerate(lines, 1):
        yield _text(x + 12, y + 24 + number * (LINE + 3), line)


def _rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="6" fill="{FILLS[kind]}"/>'


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{style}{chr(34)}" if style else ""}>{escape(text)}</text>'
