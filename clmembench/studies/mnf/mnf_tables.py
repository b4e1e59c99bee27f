"""The case study MNF for people: tables 5 to 8 of Fang et al. for the device of a run, and where the host's time goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from clmembench.analysis import stats
from clmembench.analysis.decision import DEFAULT_MARGIN
from clmembench.analysis.derive import Derived
from clmembench.analysis.noise import PROCESS_SD
from clmembench.model import Run
from clmembench.report.frame import Row
from clmembench.report.table import Table, columns
from clmembench.report.views import interval
from clmembench.studies.mnf import mnf_whole, versions
from clmembench.studies.mnf.mnf_whole import (
    COVARIANCE_BENCHMARK,
    FILTER_BENCHMARK,
    HOST_BENCHMARK,
    HOST_PROGRAM_STEPS,
    TRANSFORM_BENCHMARK,
    WHOLE_BENCHMARK,
    Hotspot,
    RotationVariant,
)
from clmembench.studies.mnf.versions import VersionGain, is_usable
from clmembench.units import format_in, format_value

TITLES = {
    FILTER_BENCHMARK: "MNF: noise filter, as table 5 of Fang et al. 2017",
    COVARIANCE_BENCHMARK: "MNF: sums of the covariance matrix, as table 6",
    TRANSFORM_BENCHMARK: "MNF: transformation, as table 7",
    WHOLE_BENCHMARK: "MNF: the whole, as table 8",
    HOST_BENCHMARK: "MNF on the host: where its time goes",
}
# speed-ups over V0 for image 1 on a K20c, tables 5 to 7
PAPER = {
    FILTER_BENCHMARK: {"V1": 4.8, "V2": 5.6, "V3": 5.9},
    COVARIANCE_BENCHMARK: {"V1": 10.7, "V2": 11.0, "V3": 19.1, "V4": 30.7},
    TRANSFORM_BENCHMARK: {"V1": 1.5, "V2": 2.0},
}
PAPER_SHARES = {"filter": 0.123, "covariance": 0.822}  # of the serial program, section 8.4
PAPER_BANDS = 224  # of all of the paper's images
HEAD = ("version", "change", "guideline", "median", "95% interval", "gain", "95% interval", "over V0")
WHOLE_HEAD = ("how", "cube in", "median", "95% interval", "kernels", "over V0", "95% interval", "over NumPy", "95% interval")
NOTES = {
    FILTER_BENCHMARK: ("V1 uses the mean, as the paper does, which is another filter: the gain of L3 is V0n over V0",),
    COVARIANCE_BENCHMARK: (
        "compilers keep running sums in registers by themselves: the gain of S5 in V1 is that of the tree's place alone",
    ),
    TRANSFORM_BENCHMARK: (),
}
WHOLE_NOTES = (
    "over V0: filter V0 uses the median, V1 to V3 the mean, so this gain includes a change of filter",
    "times are by the host's clock and include the eigenproblems; kernels: the steps alone, by the device's clock",
    "cube in the host's memory: the times include its transfer to the device and that of the components back",
)


def gains(run: Run) -> list[VersionGain]:
    """Every version of every step; as calibrated on runs between which nothing was changed (compare)."""
    return versions.version_gains(run, PROCESS_SD[run.header.device.kind], DEFAULT_MARGIN)


def ways(run: Run) -> list[RotationVariant]:
    """Every implementation of the whole, calibrated likewise."""
    return mnf_whole.rotation_variants(run, PROCESS_SD["host"])


def sections(run: Run) -> list[Table]:
    """Every table that a run has records for, in the paper's order."""
    return [section for name in TITLES if name in run.header.benchmarks for section in TABLES[name](run, ())]


def _step(name: str) -> Callable[[Run, Sequence[Row]], list[Table]]:
    def made(run: Run, rows: Sequence[Row]) -> list[Table]:
        mine = [gain for gain in gains(run) if gain.benchmark == name]
        if not mine:
            return []
        several = any(gain.of for gain in mine)
        comparable = _like_the_papers(mine[0].value)
        column = comparable and not several  # the paper does not distinguish noise and data: the figure is shown once
        header = (*(("of",) if several else ()), *HEAD, *(("K20c over V0",) if column else ()), "here")
        body = tuple(((gain.of,) if several else ()) + _cells(gain, column) for gain in mine)
        notes = (*NOTES[name], *_private(mine), *_reasons(mine))
        if comparable and several:
            notes += ("in the paper, over V0 on a K20c: " + ", ".join(f"{v} {x:g}x" for v, x in PAPER[name].items()),)
        return [Table(f"{TITLES[name]}: {mine[0].value.params['size']}", columns(header, left=3 + several), body, notes)]

    return made


def _like_the_papers(value: Derived) -> bool:
    """True where a cube has as many bands as the paper's, so that gains and shares are comparable."""
    return str(value.params["size"]).endswith(f"x{PAPER_BANDS}")


def _cells(gain: VersionGain, paper: bool) -> tuple[str, ...]:
    change = gain.change
    names = (gain.variant, "", "")
    if change is not None:
        names = (f"{gain.variant} over {change.over}", change.what, change.guideline or "–")
    ratios = (_times(gain.over_previous), _span(gain.over_previous), _times(gain.over_first))
    published = PAPER[gain.benchmark].get(gain.variant)
    papers = (f"{published:g}x" if published else "",) if paper else ()
    verdict = gain.verdict or ("" if change is None else "no value")
    return (*names, *_timed(gain.value), *ratios, *papers, verdict)


def _private(mine: Sequence[VersionGain]) -> tuple[str, ...]:
    """Stack bytes of a work-item as the compiler reports them; else its private memory as OpenCL reports it, unless that is the
    same for all versions: some runtimes report one number for every kernel."""
    facts = {gain.variant: gain.value.facts for gain in mine}
    for name, called, least in (("stack_bytes", "stack", 1), ("private_bytes", "private memory", 2)):
        bytes_by_variant = {variant: of[name] for variant, of in facts.items() if name in of}
        if len(set(bytes_by_variant.values())) >= least:
            each = ", ".join(f"{variant} {nbytes} B" for variant, nbytes in bytes_by_variant.items())
            return (f"{called} of a work-item, reported by the compiler: {each}",)
    return ()


def _reasons(mine: Sequence[VersionGain]) -> tuple[str, ...]:
    """Each reason once, with what has it where it is no common one."""
    undecided = [gain.reason for gain in mine if gain.verdict == "undecided"][:1]
    others = dict.fromkeys(f"{gain.finding().name}: {gain.reason}" for gain in mine if gain.reason and gain.verdict is None)
    return (*others, *(f"undecided: {reason}" for reason in undecided))


def _timed(value: Derived) -> tuple[str, str]:
    return (format_in(value.median, value.unit), interval(value, 3)) if is_usable(value) else (value.status, "–")


def _times(ratio: stats.Ratio | None) -> str:
    return "" if ratio is None else f"{format_value(ratio.value)}x"


def _span(ratio: stats.Ratio | None) -> str:
    return "" if ratio is None else f"{format_value(ratio.low)} to {format_value(ratio.high)}"


def _ms(value: float | None) -> str:
    return "" if value is None else format_in(value, "ms")


def whole_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Table 8: every implementation of the whole, against the first version and against NumPy; empty if the run has none."""
    variants = ways(run)
    if not variants:
        return []
    body = [
        (
            " ".join(f"{step} {variant}" for step, variant in way.kernels.items()) or "NumPy with the host's BLAS",
            way.memory,
            *_timed(way.value),
            _ms(way.kernels_ms),
            *(text for ratio in (way.over_first, way.over_numpy) for text in (_times(ratio), _span(ratio))),
        )
        for way in variants
    ]
    bad = tuple(f"{way.value.status}: {way.value.reason}" for way in variants if not is_usable(way.value))
    title = f"{TITLES[WHOLE_BENCHMARK]}: {variants[0].value.params['size']}"
    return [Table(title, columns(WHOLE_HEAD, left=2), tuple(body), WHOLE_NOTES + bad)]


def host_sections(run: Run, rows: Sequence[Row]) -> list[Table]:
    """Time of each step on the host, with its BLAS and serially; empty where the run has none."""
    spots = {(spot.library, spot.step): spot for spot in mnf_whole.host_hotspots(run)}
    if not spots:
        return []
    sizes = {library: str(spot.value.params["size"]) for (library, _), spot in spots.items()}
    paper = _like_the_papers(next(iter(spots.values())).value)
    body = []
    for step in (*HOST_PROGRAM_STEPS["blas"], "whole"):
        cells = [_host_cells(spots.get((library, step)), paper) for library in HOST_PROGRAM_STEPS]
        published = (f"{PAPER_SHARES[step]:.1%}" if step in PAPER_SHARES else "",) if paper else ()
        body.append((step, *cells[0], *cells[1], *published))
    each = ("cores", "share", *(("at 614x1087",) if paper else ()))
    header = ("step", "with its BLAS", *each, "serial", *each, *(("in the paper",) if paper else ()))
    title = f"{TITLES[HOST_BENCHMARK]}: {sizes.get('blas', sizes.get('serial', ''))}"
    return [Table(title, columns(header), tuple(body), _host_notes(spots, sizes, run.header.host.get("usable_cpus"), paper))]


def _host_cells(spot: Hotspot | None, paper: bool) -> tuple[str, ...]:
    if spot is None or not is_usable(spot.value):
        return (spot.value.status if spot else "–", *["–"] * (2 + paper))
    shares = [f"{share:.1%}" if share is not None else "–" for share in (spot.share, spot.scaled_share)[: 1 + paper]]
    cores = spot.value.cpu_over_wall
    return (_ms(spot.value.median), f"{cores:.1f}" if cores else "–", *shares)


def _host_notes(
    spots: Mapping[tuple[str, str], Hotspot], sizes: Mapping[str, str], usable_cpus: object, paper: bool
) -> tuple[str, ...]:
    notes = [f"cores: CPU time over time, of {usable_cpus} that NumPy may use; shares are of the steps"]
    if paper:
        notes.append("at 614x1087: all steps but the eigenproblems are scaled by pixels; the paper's program is serial")
    if "serial" in sizes:
        notes.append(f"serial: a cube of {sizes['serial']}, the median filter, one thread and no BLAS but for eigenproblems")
    product, conversion = spots.get(("blas", "covariance")), spots.get(("blas", "convert"))
    if product and conversion and is_usable(product.value) and is_usable(conversion.value):
        both = (product.value.median or 0.0) + (conversion.value.median or 0.0)
        notes.append(f"both covariances by the BLAS: {_ms(product.value.median)}, {_ms(both)} with the conversion to float")
    for library, steps in HOST_PROGRAM_STEPS.items():
        missing = [step for step in steps if (library, step) not in spots] if library in sizes else []
        notes += [f"{library} {step}: not measured" for step in missing]
        bad = [(step, spot.value) for (of, step), spot in spots.items() if of == library and not is_usable(spot.value)]
        notes += [f"{library} {step} is {v.status}" + (f": {v.reason}" if v.reason else "") for step, v in bad]
        if missing or any(step != "whole" for step, _ in bad):
            notes.append(f"{library}: no shares, since not every step has a time")
    return tuple(notes)


filter_sections, covariance_sections, transform_sections = map(
    _step, (FILTER_BENCHMARK, COVARIANCE_BENCHMARK, TRANSFORM_BENCHMARK)
)
TABLES: Mapping[str, Callable[[Run, Sequence[Row]], list[Table]]] = {
    FILTER_BENCHMARK: filter_sections,
    COVARIANCE_BENCHMARK: covariance_sections,
    TRANSFORM_BENCHMARK: transform_sections,
    WHOLE_BENCHMARK: whole_sections,
    HOST_BENCHMARK: host_sections,
}
