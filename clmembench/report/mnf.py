"""The case study MNF for people: tables 5 to 8 of Fang et al. for the device of a run, and where the host's time goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmembench import stats
from clmembench.compare import MARGIN, PROCESSES
from clmembench.derive import Derived, derive
from clmembench.infer import mnf, versions
from clmembench.infer.mnf import COVARIANCE, FILTER, HOST, STEPS, TRANSFORM, WHOLE, Way
from clmembench.infer.versions import Gain, usable
from clmembench.model import Card, Run
from clmembench.report.rows import Row, interval
from clmembench.report.section import Section
from clmembench.units import format_in, format_value

TITLES = {
    FILTER: "MNF: noise filter, as table 5 of Fang et al. 2017",
    COVARIANCE: "MNF: sums of the covariance matrix, as table 6",
    TRANSFORM: "MNF: transformation, as table 7",
    WHOLE: "MNF: the whole, as table 8",
    HOST: "MNF on the host: where its time goes",
}
# speed-ups over V0 for image 1 on a K20c, tables 5 to 7
PAPER = {
    FILTER: {"V1": 4.8, "V2": 5.6, "V3": 5.9},
    COVARIANCE: {"V1": 10.7, "V2": 11.0, "V3": 19.1, "V4": 30.7},
    TRANSFORM: {"V1": 1.5, "V2": 2.0},
}
PAPER_SHARES = {"filter": 0.123, "covariance": 0.822}  # of the serial program, section 8.4
HEAD = ("version", "change", "guideline", "median", "95% interval", "gain", "95% interval", "over V0", "K20c over V0", "here")
WHOLE_HEAD = ("how", "cube in", "median", "95% interval", "kernels", "over V0", "95% interval", "over NumPy", "95% interval")
WHOLE_NOTES = (
    "times are by the host's clock with the eigenproblems in them; kernels: the steps alone, by the device's clock",
    "cube in the host's memory: its way to the device and that of the components back are timed, too",
)


def gains(run: Run) -> list[Gain]:
    """Every version of every step; as calibrated on runs between which nothing was changed (compare)."""
    return versions.gains(run, PROCESSES[run.header.device.kind], MARGIN)


def ways(run: Run) -> list[Way]:
    """Every way to the whole, calibrated likewise."""
    return mnf.ways(run, PROCESSES["host"])


def sections(run: Run) -> list[Section]:
    """Every table that a run has records for, in the paper's order."""
    return [section for name in TITLES if name in run.header.benchmarks for section in SECTIONS[name](run, ())]


def _step(name: str) -> Callable[[Run, Sequence[Row]], list[Section]]:
    def made(run: Run, rows: Sequence[Row]) -> list[Section]:
        mine = [gain for gain in gains(run) if gain.benchmark == name]
        if not mine:
            return []
        several = any(gain.of for gain in mine)
        header = (*(("of",) if several else ()), *HEAD)
        body = tuple(((gain.of,) if several else ()) + _cells(gain) for gain in mine)
        return [Section(f"{TITLES[name]}: {mine[0].value.params['size']}", header, body, _reasons(mine), left=3 + several)]

    return made


def _cells(gain: Gain) -> tuple[str, ...]:
    change = gain.change
    names = (gain.variant, "", "")
    if change is not None:
        names = (f"{gain.variant} over {change.over}", change.what, change.guideline or "–")
    paper = PAPER[gain.benchmark].get(gain.variant)
    ratios = (_times(gain.over_previous), _span(gain.over_previous), _times(gain.over_first))
    verdict = gain.verdict or ("" if change is None else "no value")
    return (*names, *_timed(gain.value), *ratios, f"{paper:g}x" if paper else "", verdict)


def _reasons(mine: Sequence[Gain]) -> tuple[str, ...]:
    """Each reason once, with what has it where it is no common one."""
    undecided = [gain.reason for gain in mine if gain.verdict == "undecided"][:1]
    others = dict.fromkeys(f"{gain.finding().name}: {gain.reason}" for gain in mine if gain.reason and gain.verdict is None)
    return (*others, *(f"undecided: {reason}" for reason in undecided))


def _timed(value: Derived) -> tuple[str, str]:
    return (format_in(value.median, value.unit), interval(value, 3)) if usable(value) else (value.status, "–")


def _times(ratio: stats.Ratio | None) -> str:
    return "" if ratio is None else f"{format_value(ratio.value)}x"


def _span(ratio: stats.Ratio | None) -> str:
    return "" if ratio is None else f"{format_value(ratio.low)} to {format_value(ratio.high)}"


def _ms(value: float | None) -> str:
    return "" if value is None else format_in(value, "ms")


def _whole(run: Run, rows: Sequence[Row]) -> list[Section]:
    found = ways(run)
    if not found:
        return []
    body = [
        (
            " ".join(f"{step} {variant}" for step, variant in way.kernels.items()) or "NumPy with the host's BLAS",
            way.memory,
            *_timed(way.value),
            _ms(way.kernels_ms),
            *(text for ratio in (way.over_first, way.over_numpy) for text in (_times(ratio), _span(ratio))),
        )
        for way in found
    ]
    bad = tuple(f"{way.value.status}: {way.value.reason}" for way in found if not usable(way.value))
    title = f"{TITLES[WHOLE]}: {found[0].value.params['size']}"
    return [Section(title, WHOLE_HEAD, tuple(body), WHOLE_NOTES + bad, left=2)]


def _host(run: Run, rows: Sequence[Row]) -> list[Section]:
    spots = {(spot.library, spot.step): spot for spot in mnf.hotspots(run)}
    sizes = {v.params["library"]: str(v.params["size"]) for v in derive(run) if v.benchmark == HOST}
    if not spots:
        return []
    body = []
    for step in STEPS:
        blas, serial = spots.get(("blas", step)), spots.get(("serial", step))
        shares = [f"{s.share:.1%}" if s else "–" for s in (blas, serial)]
        scaled = [f"{s.scaled_share:.1%}" if s else "–" for s in (blas, serial)]
        times = [_ms(s.ms) if s else "–" for s in (blas, serial)]
        paper = f"{PAPER_SHARES[step]:.1%}" if step in PAPER_SHARES else ""
        body.append((step, times[0], shares[0], scaled[0], times[1], shares[1], scaled[1], paper))
    size = sizes.get("blas", sizes.get("serial", ""))
    header = ("step", "with its BLAS", "share", "at 614x1087", "serial", "share", "at 614x1087", "in the paper")
    notes = ["at 614x1087: steps but the eigenproblems scaled by pixels; the paper's program is serial"]
    if "serial" in sizes:
        notes.append(f"serial: a cube of {sizes['serial']}, the median filter, one thread and no BLAS but for eigenproblems")
    product, conversion = spots.get(("blas", "covariance")), spots.get(("blas", "convert"))
    if product and conversion:
        notes.append(
            f"both covariances by the BLAS: {_ms(product.ms)}, {_ms(product.ms + conversion.ms)} with the conversion to float"
        )
    return [Section(f"{TITLES[HOST]}: {size}", header, tuple(body), tuple(notes))]


SECTIONS: Mapping[str, Callable[[Run, Sequence[Row]], list[Section]]] = {
    **{name: _step(name) for name in (FILTER, COVARIANCE, TRANSFORM)},
    WHOLE: _whole,
    HOST: _host,
}


def no_figure(card: Card, found: Sequence[object]) -> str:
    """Nothing: the tables say it better."""
    return ""
