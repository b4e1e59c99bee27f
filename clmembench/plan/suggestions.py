"""Remedies for a mistyped name: the names that are near it, and the option that takes what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from clmembench.benchmarks import discovered

MAX_SUGGESTIONS = 3
MIN_SIMILARITY = 0.6  # difflib's own: a wrong, missing or exchanged letter of a word of four


def near(word: str, known: Iterable[str]) -> list[str]:
    """The known names most like a word, the best first; else those that begin with it or contain it."""
    by_folded = {name.casefold(): name for name in known}
    folded = word.casefold()
    found = get_close_matches(folded, by_folded, MAX_SUGGESTIONS, MIN_SIMILARITY)
    inside = [name for name in by_folded if len(folded) > 1 and folded in name]
    return [by_folded[name] for name in found or inside[:MAX_SUGGESTIONS]]


def or_all(word: str, known: Iterable[str], all_of_them: str = "") -> str:
    """`did you mean A or B?` where names are near a word, else every known name; `all_of_them` says where they are listed."""
    names = list(known)
    found = near(word, names)
    if not found:
        return f"choose from {', '.join(names)}"
    return f"did you mean {' or '.join(found)}?{f' {all_of_them}' if all_of_them else ''}"


def benchmark_or_suite(word: str, suites: Iterable[str], command: str = "") -> str:
    """The option that takes a word which is, or is nearly, the name of a suite or a benchmark, with the `command` before it; ""
    where the word is none."""
    known, kinds = [b.name for b in discovered().values() if not b.adaptive], list(suites)
    for names, option, kind in ((known, "-b", "benchmark"), (kinds, "-s", "suite")):
        if word in names:
            return f"it is a {kind}: write {command}{option} {word}"
    for names, option in ((known, "-b"), (kinds, "-s")):
        found = near(word, names)
        if found:
            return f"did you mean {command}{option} {found[0]}?"
    return ""


def axis_of_others(name: str, chosen: Iterable[str]) -> str:
    """Which other benchmarks have an axis of that name; "" where none has."""
    mine = set(chosen)
    others = [b.name for b in discovered().values() if name in b.axes and not b.adaptive and b.name not in mine]
    return f"it is an axis of {', '.join(others)}: name one of them with -b" if others else ""
