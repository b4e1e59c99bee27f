"""Shared storage as text lines: paths by verdict, local memory with the first cache, and compute units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from clmembench.model import Finding
from clmembench.report.finding_tables import interval_text, value_text
from clmembench.sanitize import line
from clmembench.studies.hierarchy.sharing.cache_sharing import LOCAL_NAME
from clmembench.studies.hierarchy.sharing.unit_groups import NAME as UNITS_NAME
from clmembench.units import count

TITLE = "Shared storage"
PATH_WORDS = {
    "global": "global loads",
    "readonly": "read-only loads",
    "image1d_buffer": "images over a buffer",
    "constant": "constant pointers",
    "constant_array": "constant arrays",
}
CACHED_SIZE_NAME = re.compile(r"stays_at_local_([0-9.]+)_kib_bytes")


def sharing_lines(findings: Mapping[str, Finding], footnote: Callable[[str, str, str], int]) -> tuple[str, ...]:
    """One line per verdict with its paths; `footnote` takes place, subject and reason, and returns the footnote's number."""
    return tuple(map(line, _lines(findings, footnote)))


def _lines(findings: Mapping[str, Finding], footnote: Callable[[str, str, str], int]) -> Iterator[str]:
    pairs = {
        name: f for name, f in findings.items() if name not in (LOCAL_NAME, UNITS_NAME) and not CACHED_SIZE_NAME.fullmatch(name)
    }
    for verdict in ("shared", "separate"):
        texts = [_pair_text(name, finding) for name, finding in pairs.items() if finding.value == verdict]
        if texts:
            yield f"{verdict}: {'; '.join(texts)}"
    groups: dict[str, list[str]] = {}
    for name, finding in pairs.items():
        if finding.status != "ok":
            groups.setdefault(finding.reason, []).append(_pair_words(name))
    for reason, names in groups.items():
        yield f"undetermined: {'; '.join(names)} [{footnote('shared storage', ', '.join(names), line(reason))}]"
    yield from _local_lines(findings, footnote)
    units = findings.get(UNITS_NAME)
    if units is not None:
        what = "cache behind the nearest one for constants"
        if units.status == "ok" and isinstance(units.value, int | float):
            text = (
                "each compute unit has its own" if units.value == 1 else f"{count(int(units.value), 'compute unit')} share one"
            )
            yield f"{what}: {text}"
        elif units.status == "ok":
            yield f"{what}: groups of {units.value} compute units share one each"
        else:
            number = footnote("shared storage", "compute units of a constant cache", line(units.reason))
            yield f"{what}: undetermined who shares it [{number}]"


def _local_lines(findings: Mapping[str, Finding], footnote: Callable[[str, str, str], int]) -> Iterator[str]:
    local = findings.get(LOCAL_NAME)
    if local is not None and local.status == "ok":
        yield f"local memory and the first cache: {local.value}"
    elif local is not None:
        number = footnote("shared storage", "local memory", line(local.reason))
        yield f"local memory and the first cache: undetermined [{number}]"
    cached_sizes = [
        (found[1], finding) for name, finding in findings.items() if (found := CACHED_SIZE_NAME.fullmatch(line(name)))
    ]
    if cached_sizes:
        texts = (
            f"{_size_text(finding)} beside {f'{amount} KiB' if float(amount) else 'none'}" for amount, finding in cached_sizes
        )
        yield f"largest set of global loads that all hit beside local memory of one-item work-groups: {', '.join(texts)}"


def _size_text(finding: Finding) -> str:
    return interval_text(finding) or value_text(finding)


def _pair_words(name: str) -> str:
    first, _, second = name.partition("_with_")
    return f"{PATH_WORDS.get(first, first)} and {PATH_WORDS.get(second, second)}"


def _pair_text(name: str, finding: Finding) -> str:
    """The two paths, with the ratio of evictions by one of them to the control if it is known."""
    span = "" if finding.low is None or finding.high is None else f" ({finding.low:.2f} to {finding.high:.2f} of the control)"
    return f"{_pair_words(name)}{span}"
