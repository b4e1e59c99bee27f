"""Makes the pages, tables and figures that show the runs in reports/: python scripts/gallery/make.py [--check].

A page is a template in pages/, in the folder of the page in the repository; its expressions (run_numbers.py) name the runs.
--check writes nothing and ends with 1 where a page or a figure is stale, or a page without a template has a measured number of
a device; -v lists the parts of pages whose numbers are from no run. --figures draws the figures (figures.py) whose runs are
others by now, which takes minutes and a browser.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.gallery import figures, run_numbers

PAGES = Path(__file__).with_name("pages")
MADE, KEPT = ("\ue000", "\ue001"), ("\ue002", "\ue003")  # marks around what an expression made, and around kept parts
CODE = re.compile(r"```(?!console).*?^```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)  # what a command prints is measured
MEASURED = re.compile(r"\b\d[\d.,]*(?:x\b|%(?! interval)|\s?(?:[GT]B/s|[GT]FLOP/s|[GT]op/s|cycles|[num]?s\b|times\b))")
DEVICE = re.compile(r"\b(?:H[12]00s?|EPYC|Xeons?|Zen [34]|Sapphire Rapids|Emerald Rapids|(?:\d+|two)[- ]cores?)\b")
SENTENCE = re.compile(r"(?<=[.:;])\s+(?=[A-Z*`|-])|\n\n|\n(?=[-|])")
# parts of pages without a template that have measured numbers of a device, and the command that prints them
FROM_COMMANDS = {
    "docs/measuring.md": (
        "- ~ between runs beyond processes:",  # scripts/calibrate.py fit
        "- ~ between devices of one model:",
        "Of 387 values on the H200",  # scripts/calibrate.py pairs
        "**Detection limits.**",
    ),
    "docs/testing.md": ("On an H200 (driver 580.159.04",),  # scripts/plant_amounts.py
}


@dataclass(slots=True)
class Page:
    """A page as it is made: its text, and the parts that are kept with the reason why their numbers are from no run."""

    text: str = ""
    kept: list[tuple[str, int]] = field(default_factory=list)

    def keep(self, reason: str, caller: Callable[[], str]) -> str:
        """The text of a block `{% call kept("...") %}`, whose numbers are no run's: an experiment of a day, or published."""
        text = caller()
        self.kept.append((reason, len(re.findall(r"\d[\d.,]*", without(CODE, text)))))
        return KEPT[0] + text + KEPT[1]


def made(template: Path) -> Page:
    """The page of a template. Raises MissingNumber for a number that no run holds, and for one that is written out with a unit
    and is not in a block that says where it is from."""
    page = Page()
    environment = jinja2.Environment(  # noqa: S701 - Markdown and CSV
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        finalize=lambda one: one if isinstance(one, jinja2.Undefined) else f"{MADE[0]}{one}{MADE[1]}",
    )
    environment.globals |= {one.__name__: one for one in run_numbers.FUNCTIONS} | {
        "kept": page.keep,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
    }
    name = template.relative_to(PAGES)
    text = template.read_text(encoding="utf-8")
    try:
        marked = environment.from_string(text).render()
    except run_numbers.MissingNumber as error:
        raise run_numbers.MissingNumber(f"{name}: {error}") from error
    left = marked
    for start, end in (MADE, KEPT):
        left = re.sub(f"{start}[^{start}{end}]*{end}", "", left)
    if found := MEASURED.findall(without(CODE, left)):
        raise run_numbers.MissingNumber(f"{name}: {'; '.join(found)}: measured by no run that the page names")
    page.text = re.sub(f"[{''.join(MADE + KEPT)}]", "", marked)
    return page


def without(pattern: re.Pattern[str], text: str) -> str:
    """A text without what matches."""
    return pattern.sub("", text)


def pages(quick: bool = False) -> Iterator[tuple[Path, Page]]:
    """Each file that a template makes, with what it holds: tables first, since pages quote them. `quick` leaves out those that
    call themselves slow."""
    for template in sorted(PAGES.rglob("*.j2"), key=lambda path: ("tables" not in path.parts, path)):
        if quick and template.read_text(encoding="utf-8").startswith("{# slow"):
            continue
        yield run_numbers.ROOT / template.relative_to(PAGES).with_suffix(""), made(template)


def unsourced() -> Iterator[tuple[str, str]]:
    """Sentences of pages that no template makes which name a device and a measured number, without a command that prints it."""
    for page in sorted((run_numbers.ROOT / "docs").glob("*.md")):
        name = page.relative_to(run_numbers.ROOT).as_posix()
        if (PAGES / f"{name}.j2").exists():
            continue
        for sentence in SENTENCE.split(CODE.sub("~", page.read_text(encoding="utf-8"))):
            known = sentence.startswith(FROM_COMMANDS.get(name, ("\0",)))
            if DEVICE.search(sentence) and MEASURED.search(sentence) and not known:
                yield name, " ".join(sentence.split())


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or say which are stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a page is stale")
    parser.add_argument("--quick", action="store_true", help="leave out the pages that take seconds of inference")
    parser.add_argument("--figures", action="store_true", help="draw the stale figures, too")
    parser.add_argument("-v", "--verbose", action="store_true", help="list the parts that are not from a run")
    given = parser.parse_args(arguments)
    stale = False
    try:
        for path, page in pages(given.quick):
            name = path.relative_to(run_numbers.ROOT)
            if not path.exists() or path.read_text(encoding="utf-8") != page.text:
                stale = True
                print(f"{name}: stale, made by scripts/gallery/make.py" if given.check else f"{name}: written")
                if not given.check:
                    path.write_text(page.text, encoding="utf-8")
            for reason, count in page.kept if given.verbose else ():
                print(f"{name}: not from a run: {reason} ({count} numbers)")
    except run_numbers.MissingNumber as error:
        sys.exit(f"scripts/gallery/pages/{error}")
    for at, sentence in unsourced():
        stale = True
        print(f"{at}: measured by no run: {sentence}")
    old = list(figures.stale())
    if given.figures and not given.check:
        figures.draw(old)
        old = []
    for figure in old:
        print(f"{figure}: its runs are others by now, drawn by scripts/gallery/make.py --figures")
    return int(given.check and (stale or bool(old)))


if __name__ == "__main__":
    sys.exit(main())
