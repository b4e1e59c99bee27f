"""The case study MNF for people and programs: tables 5 to 8 of Fang et al. for the device of a run, and the host's hotspots."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from clmembench import shown, stats
from clmembench.compare import MARGIN, PROCESSES
from clmembench.derive import Derived, derive
from clmembench.infer import versions
from clmembench.infer.versions import Gain, speed_up, usable
from clmembench.model import Card, Run
from clmembench.report.rows import Row, interval
from clmembench.report.section import Section
from clmembench.units import format_in, format_value

FILTER, COVARIANCE, TRANSFORM, WHOLE, HOST = "mnf_filter", "mnf_covariance", "mnf_transform", "mnf", "mnf_host"
TITLES = {
    FILTER: "Noise filter (as table 5 of Fang et al. 2017)",
    COVARIANCE: "Covariance matrix (as table 6)",
    TRANSFORM: "Transformation (as table 7)",
    WHOLE: "The whole of MNF (as table 8)",
    HOST: "MNF on the host: where its time goes",
}
# speed-ups over V0 for image 1 on a K20c, tables 5 to 7
PAPER = {
    FILTER: {"V1": 4.8, "V2": 5.6, "V3": 5.9},
    COVARIANCE: {"V1": 10.7, "V2": 11.0, "V3": 19.1, "V4": 30.7},
    TRANSFORM: {"V1": 1.5, "V2": 2.0},
}
PAPER_SHARES = {"filter": 0.123, "covariance": 0.822}  # of the serial program, section 8.4
STEPS = ("filter", "convert", "covariance", "eigen", "transform")
FIELDS = (
    "step", "of", "variant", "over", "change", "guideline", "status", "time_ms", "time_low_ms", "time_high_ms",
    "gain", "gain_low", "gain_high", "over_first", "over_first_low", "over_first_high", "verdict", "verified", "reason",
)  # fmt: skip


def gains(run: Run) -> list[Gain]:
    """Every version of every step; as calibrated on runs between which nothing was changed (compare)."""
    return versions.gains(run, PROCESSES[run.header.device.kind], MARGIN)


def sections(run: Run) -> list[Section]:
    """Every table that a run has records for, in the paper's order."""
    return [section for name in TITLES if name in run.header.benchmarks for section in SECTIONS[name](run, ())]


# ---- tables 5 to 7 -----------------------------------------------------------------------------------------------------


def _step(name: str) -> Callable[[Run, Sequence[Row]], list[Section]]:
    def made(run: Run, rows: Sequence[Row]) -> list[Section]:
        mine = [gain for gain in gains(run) if gain.benchmark == name]
        if not mine:
            return []
        several = any(gain.of for gain in mine)
        header = (*(("of",) if several else ()), "version", "change", "guideline", "median", "95% interval", "gain")
        header += ("95% interval", "over V0", "on a K20c", "here it")
        size = mine[0].value.params["size"]
        body = tuple(_cells(gain, several) for gain in mine)
        return [Section(f"{TITLES[name]}: {size}", header, body, _reasons(mine), left=3 + several)]

    return made


def _cells(gain: Gain, several: bool) -> tuple[str, ...]:
    value, change = gain.value, gain.change
    names = (*((gain.of,) if several else ()), gain.variant)
    names += (f"{change.what} (over {change.over})" if change else "none", (change.guideline or "–") if change else "")
    times = (format_in(value.median, value.unit), interval(value, 3)) if usable(value) else (value.status, "–")
    paper = PAPER[gain.benchmark].get(gain.variant)
    over = (_times(gain.over_previous), _span(gain.over_previous), _times(gain.over_first))
    said = {"paid off": "paid off", "no difference": "made no difference", "cost": "was a cost", "undecided": "is undecided"}
    verdict = said[gain.verdict] if gain.verdict else "" if change is None else "has no value"
    return (*names, *times, *over, f"{paper:g}x" if paper else "", verdict)


def _reasons(mine: Sequence[Gain]) -> tuple[str, ...]:
    found = {gain.reason: gain for gain in mine if gain.reason and gain.verdict != "undecided"}
    notes = [reason for reason in found]
    if any(gain.verdict == "undecided" for gain in mine):
        notes.append("undecided: " + next(gain.reason for gain in mine if gain.verdict == "undecided"))
    return tuple(notes)


def _times(ratio: stats.Ratio | None) -> str:
    return "" if ratio is None else f"{format_value(ratio.value)}x"


def _span(ratio: stats.Ratio | None) -> str:
    return "" if ratio is None else f"{format_value(ratio.low)} to {format_value(ratio.high)}"


# ---- table 8 -----------------------------------------------------------------------------------------------------------


def _pipelines(run: Run) -> list[dict[str, Any]]:
    """Each way to the whole: its time and what it is over the kernels' V0, of the same memory, and over NumPy."""
    values = derive(run)
    prior = PROCESSES["host"]
    numpy = next((v for v in values if v.benchmark == HOST and _is(v, library="blas", step="whole")), None)
    whole = [v for v in values if v.benchmark == WHOLE]
    found = []
    for value in whole:
        names = {step: str(value.params[step]) for step in ("filter", "covariance", "transform")}
        memory = value.params["memory"]
        first = next((v for v in whole if _is(v, filter="V0", covariance="V0", transform="V0", memory=memory)), None)
        over = speed_up(first, value, prior) if first is not None and first is not value else None
        against = speed_up(numpy, value, prior) if numpy is not None else None
        found.append({**names, "memory": memory, "value": value, "over_first": over, "over_numpy": against})
    if numpy is not None:
        found.append({"memory": "host", "value": numpy, "over_first": None, "over_numpy": None})
    return found


def _is(value: Derived, **params: object) -> bool:
    return all(value.params.get(name) == wanted for name, wanted in params.items())


def _whole(run: Run, rows: Sequence[Row]) -> list[Section]:
    found = _pipelines(run)
    if not found:
        return []
    body, notes = [], []
    for way in found:
        value = way["value"]
        kernels = (
            f"filter {way['filter']}, covariance {way['covariance']}, transform {way['transform']}" if "filter" in way else ""
        )
        good = usable(value)
        times = (format_in(value.median, value.unit), interval(value, 3)) if good else (value.status, "–")
        ratios = (_times(way["over_first"]), _span(way["over_first"]), _times(way["over_numpy"]), _span(way["over_numpy"]))
        alone = _kernels_ms(run, way) if kernels else None
        body.append((kernels or "NumPy, BLAS of the host", f"{way['memory']}", *times, _ms(alone), *ratios))
        if not good:
            notes.append(f"{kernels or 'NumPy'}: {value.status}: {value.reason}")
    notes.append(
        "times are by the host's clock and have the eigenproblems in them; kernels alone are by the device's, of the steps"
    )
    notes.append("host: the cube's way to the device and that of its components back are timed, too")
    header = (
        "how",
        "cube in",
        "median",
        "95% interval",
        "kernels alone",
        "over V0",
        "95% interval",
        "over NumPy",
        "95% interval",
    )
    size = found[0]["value"].params["size"]
    return [Section(f"{TITLES[WHOLE]}: {size}", header, tuple(body), tuple(notes), left=2)]


def _kernels_ms(run: Run, way: Mapping[str, Any]) -> float | None:
    """The steps' own times of a pipeline's versions, added; None where one has none."""
    wanted = {FILTER: way["filter"], COVARIANCE: way["covariance"], TRANSFORM: way["transform"]}
    mine = [v for v in derive(run) if v.benchmark in wanted and v.params["variant"] == wanted[v.benchmark]]
    if len(mine) != len(wanted) + 1 or not all(map(usable, mine)):  # there are two covariances
        return None
    return sum(v.median or 0.0 for v in mine)


def _ms(value: float | None) -> str:
    return "" if value is None else format_in(value, "ms")


# ---- the host ----------------------------------------------------------------------------------------------------------


def hotspots(run: Run) -> dict[str, dict[str, dict[str, float]]]:
    """By library and step: the median time in ms, its share of all steps, and the share in a cube of as many pixels as the one
    that NumPy's BLAS had: all steps but the eigenproblems take as long a pixel on any."""
    values = [v for v in derive(run) if v.benchmark == HOST and usable(v) and v.params["step"] != "whole"]
    pixels = {str(v.params["library"]): _pixels(str(v.params["size"])) for v in values}
    found: dict[str, dict[str, dict[str, float]]] = {}
    for library, own in pixels.items():
        times = {str(v.params["step"]): v.median or 0.0 for v in values if v.params["library"] == library}
        larger = pixels.get("blas", own) / own
        scaled = {step: time * (1 if step == "eigen" else larger) for step, time in times.items()}
        found[library] = {
            step: {"ms": time, "share": time / sum(times.values()), "scaled_share": scaled[step] / sum(scaled.values())}
            for step, time in times.items()
        }
    return found


def _pixels(size: str) -> int:
    width, height, _ = size.split("x")
    return int(width) * int(height)


def _host(run: Run, rows: Sequence[Row]) -> list[Section]:
    found = hotspots(run)
    blas, serial = found.get("blas", {}), found.get("serial", {})
    sizes = {v.params["library"]: v.params["size"] for v in derive(run) if v.benchmark == HOST}
    if not sizes:
        return []
    body = []
    for step in STEPS:
        cells = [step]
        for of, names in ((blas, ("share",)), (serial, ("share", "scaled_share"))):
            cells.append(_ms(of[step]["ms"]) if step in of else "–")
            cells += [f"{of[step][name]:.1%}" if step in of else "–" for name in names]
        body.append((*cells, f"{PAPER_SHARES[step]:.1%}" if step in PAPER_SHARES else ""))
    header = ("step", "with its BLAS", "share", "serial", "share", f"share at {sizes.get('blas', '')}", "serial, in the paper")
    notes = [f"serial: a cube of {sizes['serial']}, one thread, no BLAS; the median filter; scaled by pixels"] * (
        "serial" in sizes
    )
    if {"covariance", "convert"} <= blas.keys():
        with_it = blas["covariance"]["ms"] + blas["convert"]["ms"]
        notes.append(f"covariances by the BLAS: {_ms(blas['covariance']['ms'])}, {_ms(with_it)} with the conversion to float")
    return [Section(f"{TITLES[HOST]}: {sizes.get('blas', '')}", header, tuple(body), tuple(notes))]


SECTIONS: Mapping[str, Callable[[Run, Sequence[Row]], list[Section]]] = {
    **{name: _step(name) for name in (FILTER, COVARIANCE, TRANSFORM)},
    WHOLE: _whole,
    HOST: _host,
}


def no_figure(card: Card, found: Sequence[object]) -> str:
    """Nothing: the tables say it better."""
    return ""


# ---- for programs ------------------------------------------------------------------------------------------------------


def to_json(run: Run) -> str:
    """One JSON object: device, `steps` (a list, FIELDS each, with the finding's evidence), `whole` and `host` lists."""
    steps = [{**_as_dict(gain), "evidence": list(gain.evidence)} for gain in gains(run)]
    whole = [
        {
            **{k: v for k, v in way.items() if k not in ("value", "over_first", "over_numpy")},
            "how": "kernels" if "filter" in way else "numpy",
            **_timed(way["value"]),
            **{name: None if way[name] is None else asdict(way[name]) for name in ("over_first", "over_numpy")},
            "kernels_ms": _kernels_ms(run, way) if "filter" in way else None,
        }
        for way in _pipelines(run)
    ]
    host = [{"library": k, "step": s, **n} for k, steps_of in hotspots(run).items() for s, n in steps_of.items()]
    size = next((v.params["size"] for v in derive(run) if v.benchmark in TITLES), None)
    device = shown.printable(run.header.device.name)
    return json.dumps({"device": device, "size": size, "steps": steps, "whole": whole, "host": host}, indent=1, allow_nan=False)


def to_csv(run: Run) -> str:
    """One line a version of a step, by FIELDS."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: shown.csv_cell(v) for k, v in _as_dict(gain).items()} for gain in gains(run))
    return out.getvalue()


def _timed(value: Derived) -> dict[str, Any]:
    good = usable(value)
    return {
        "size": value.params["size"],
        "status": value.status,
        "time_ms": value.median if good else None,
        "time_low_ms": value.ci_low if good else None,
        "time_high_ms": value.ci_high if good else None,
        "verified": value.checked,
        "reason": value.reason,
    }


def _as_dict(gain: Gain) -> dict[str, Any]:
    def ends(name: str, ratio: stats.Ratio | None) -> dict[str, float | None]:
        return {
            name: ratio.value if ratio else None,
            f"{name}_low": ratio.low if ratio else None,
            f"{name}_high": ratio.high if ratio else None,
        }

    change, timed = gain.change, _timed(gain.value)
    del timed["size"]
    told = {
        "step": gain.benchmark,
        "of": gain.of,
        "variant": gain.variant,
        "over": change.over if change else None,
        "change": change.what if change else None,
        "guideline": (change.guideline or None) if change else None,
        **timed,
        **ends("gain", gain.over_previous),
        **ends("over_first", gain.over_first),
        "verdict": gain.verdict,
        "reason": gain.reason or timed["reason"],
    }
    return {name: told[name] for name in FIELDS}
