"""Every published number is in the short quoted string kept with it, or is computed from numbers that are."""

from __future__ import annotations

import ast
import operator
import re

from clmembench.resources import sheet_paths
from clmembench.specs.sheets import Figure, Published, load

SHEETS = {path.stem: load(path) for path in sheet_paths()}
PAPERS = ("Razzaq et al. 2016", "Mei and Chu 2015", "Mei et al. 2014", "Fang et al. 2017", "Wang et al. 2019")
# whose figure is another unit, or another precision, than the number printed there: their sources say how it is computed
COMPUTED_FIGURES = {"fp32_vector_gflop_s", "fp64_vector_gflop_s", "link_gb_s"}
WORDS = {"half": 0.5, "one": 1, "once": 1, "two": 2, "twice": 2, "three": 3, "four": 4, "fourth": 4}
# what a printed number is multiplied by, by words of the quote, where the sheet has another unit
SCALES = {"GFLOP/s": {"Teraflop": 1000}, "%": {"half": 100}, "B": {"KB": 1 << 10, "MB": 1 << 20}, "KiB": {"1.5 MB": 1024}}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
UNIT_FACTORS = {100, 1024}  # of percent and of sizes: no printed numbers
MAX_QUOTE_LETTERS = 320


def printed(quote: str) -> list[float]:
    """The numbers in a quote in their order, those written as words among them; 1,225 has a thousands separator, and so has
    no list of numbers, which has a space."""
    found = re.finditer(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?|(?<=[-*(/{x])\d+|" + "|".join(rf"\b{w}\b" for w in WORDS), quote)
    return [WORDS[m[0]] if m[0] in WORDS else float(m[0].replace(",", "")) for m in found]


def scaled(quote: str, unit: str) -> list[float]:
    factors = [1, *(factor for word, factor in SCALES.get(unit, {}).items() if word in quote)]
    return [number * factor for number in printed(quote) for factor in factors]


def evaluate(node: ast.expr) -> tuple[float, list[float]]:
    """The value of an expression of numbers, and the numbers."""
    if isinstance(node, ast.BinOp):
        (first, left), (second, right) = evaluate(node.left), evaluate(node.right)
        return OPERATORS[type(node.op)](first, second), left + right
    assert isinstance(node, ast.Constant) and isinstance(node.value, int | float), ast.dump(node)
    return node.value, [node.value]


def complaint(result: Published | Figure) -> str:
    """Why a number is not held by its quote, "" where it is."""
    if not result.quote:
        return "no quote"
    if len(result.quote) > MAX_QUOTE_LETTERS:
        return "no short quote"
    if result.formula:
        value, used = evaluate(ast.parse(result.formula, mode="eval").body)
        if abs(value / result.value - 1 if result.value else value) > 1e-4:
            return f"{result.formula} is {value:g}, not {result.value:g}"
        missing = [number for number in used if number not in [*scaled(result.quote, ""), *UNIT_FACTORS]]
        return f"{missing} of {result.formula} are not in {result.quote!r}" if missing else ""
    found = scaled(result.quote, result.unit)
    if result.value not in found:
        return f"{result.value:g} {result.unit} is not in {result.quote!r}"
    # the quote of a table's row ends with the number, so that it cannot be that of another column
    last = found[-(len(found) // len(printed(result.quote))) :]
    in_row = isinstance(result, Published) and result.read_from == "table"
    return f"{result.quote!r} does not end with {result.value:g}" if in_row and result.value not in last else ""


def test_every_published_number_is_in_its_quote_or_computed_from_it():
    results = [(stem, n, result) for stem, sheet in SHEETS.items() for n, result in enumerate(sheet.published)]
    wrong = [f"{stem} {r.benchmark} {r.metric} {dict(r.params)}: {said}" for stem, _, r in results if (said := complaint(r))]
    assert len(results) > 400 and not wrong, "\n".join(wrong)


def test_theoretical_figures_of_the_papers_are_in_their_quotes():
    wrong, held = [], 0
    for stem, sheet in SHEETS.items():
        for name, figure in sheet.figures.items():
            if figure.quote:
                held += 1
                said = complaint(figure)
                wrong += [f"{stem} {name}: {said}"] if said else []
            elif figure.source.startswith(PAPERS) and name not in COMPUTED_FIGURES:
                wrong.append(f"{stem} {name}: no quote")
    assert held > 25 and not wrong, "\n".join(wrong)


def test_a_number_that_its_quote_does_not_hold_is_found():
    base = {"benchmark": "b", "metric": "m", "unit": "cycles", "source": "Mei and Chu 2015, table V", "read_from": "text"}
    cases = {
        "1225 of 1,225": (Published(value=1225, quote="as high as 1,225 GFlop/s", **base), True),
        "122 of 1,225": (Published(value=122, quote="as high as 1,225 GFlop/s", **base), False),
        "50 of a list": (Published(value=50, quote="are 50, 470 and 28", **base), True),
        "47 of 470": (Published(value=47, quote="are 50, 470 and 28", **base), False),
        "no quote": (Published(value=1, **base), False),
        "the column before": (Published(value=34, quote="GTX980 | 30 | 34 | 42", **{**base, "read_from": "table"}), False),
        "a formula": (Published(value=160, quote="half [...] 320", formula="320 * 0.5", **base), True),
        "a wrong formula": (Published(value=161, quote="half [...] 320", formula="320 * 0.5", **base), False),
        "a formula of another number": (Published(value=160, quote="half [...] 300", formula="320 * 0.5", **base), False),
        "two words": (Published(value=2, quote="only two levels", **base), True),
    }  # fmt: skip
    assert {what: not complaint(result) for what, (result, _) in cases.items()} == {w: held for w, (_, held) in cases.items()}


def test_derived_and_bounded_values_say_so():
    """A formula that does more than name a printed fraction or product is derived; and what is derived from parts of a quote
    that do not stand together has the gap between them."""
    for stem, sheet in SHEETS.items():
        for result in sheet.published:
            where = f"{stem}: {result.benchmark} {result.metric} {dict(result.params)}"
            assert not ("[...]" in result.quote and not result.derived), where
            assert not (result.qualifier in ("above", "below") and not result.derived), where
            if result.low is not None and result.high is not None:
                assert result.low <= result.value <= result.high, where
                assert result.derived or result.qualifier or result.note, where


def test_the_slips_of_the_first_sheets_are_mended():
    published = [(stem, result) for stem, sheet in SHEETS.items() for result in sheet.published]
    assert not [stem for stem, r in published if r.benchmark == "geometry" and {"cache", "memory"} & r.params.keys()]
    assert not [stem for stem, r in published if r.unit == "fraction" or r.note.startswith("approximate")]
    (share,) = [r for s, r in published if s == "intel-xeon-phi-knc" and (r.benchmark, r.metric) == ("stream", "efficiency")]
    assert (share.value, share.unit, share.low, share.high) == (50, "%", 45, 55) and "best over" not in share.note
    bandwidth = SHEETS["nvidia-gtx-560-ti"].figures["local_memory_bandwidth_gb_s"]
    assert "2 B a cycle" in bandwidth.source and bandwidth.value == 2 * 32 * 0.95
