"""MNF as a whole: its implementations compared with each other, and where the host's time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clmembench.analysis import stats
from clmembench.analysis.derive import Derived, derive
from clmembench.model import Run
from clmembench.studies.mnf.versions import is_usable, speed_up_ratio

BENCHMARKS = "mnf_filter", "mnf_covariance", "mnf_transform", "mnf", "mnf_host"
FILTER_BENCHMARK, COVARIANCE_BENCHMARK, TRANSFORM_BENCHMARK, WHOLE_BENCHMARK, HOST_BENCHMARK = BENCHMARKS
PAPER_PIXELS = 614 * 1087  # image 1 of the paper
HOST_PROGRAM_STEPS: Mapping[str, tuple[str, ...]] = {  # of each program on the host, in order
    "blas": ("filter", "convert", "covariance", "eigen", "transform"),
    "serial": ("filter", "covariance", "eigen", "transform"),
}


@dataclass(frozen=True, slots=True)
class RotationVariant:
    """One implementation of the whole rotation. `kernels` are the versions of its steps, empty for NumPy on the host; `memory`
    holds the cube and its components; `kernels_ms` is the time of its kernels as single steps, by the device's clock."""

    kernels: Mapping[str, str]
    memory: str
    value: Derived
    over_first: stats.Ratio | None = None
    over_numpy: stats.Ratio | None = None
    kernels_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Hotspot:
    """A step of a program on the host, or the whole of it: its share of all steps, and its share if the cube had as many pixels
    as image 1 of the paper. The whole has no shares, nor has any step if the time of one is missing."""

    library: str
    step: str
    value: Derived
    share: float | None = None
    scaled_share: float | None = None


def rotation_variants(run: Run, prior: float) -> list[RotationVariant]:
    """Every implementation of the whole, NumPy's last: against the kernels' V0 with the cube in the same memory, and against
    NumPy. `prior` is that of stats.ratio for times by the host's clock."""
    values = derive(run, BENCHMARKS)
    numpy = next(
        (v for v in values if v.benchmark == HOST_BENCHMARK and _has_parameters(v, library="blas", step="whole")), None
    )
    whole = [v for v in values if v.benchmark == WHOLE_BENCHMARK]
    variants = []
    for value in whole:
        kernels = {step: str(value.params[step]) for step in ("filter", "covariance", "transform")}
        memory = str(value.params["memory"])
        first = next(
            (v for v in whole if _has_parameters(v, filter="V0", covariance="V0", transform="V0", memory=memory)), None
        )
        over = speed_up_ratio(first, value, prior) if first is not None and first is not value else None
        against = speed_up_ratio(numpy, value, prior) if numpy is not None else None
        variants.append(RotationVariant(kernels, memory, value, over, against, _kernels_ms(values, kernels)))
    return variants + ([RotationVariant({}, "host", numpy)] if numpy is not None else [])


def _has_parameters(value: Derived, **params: object) -> bool:
    return all(value.params.get(name) == wanted for name, wanted in params.items())


def _kernels_ms(values: Sequence[Derived], kernels: Mapping[str, str]) -> float | None:
    """The times of the steps in these versions, added; None where one has none."""
    wanted = {
        FILTER_BENCHMARK: kernels["filter"],
        COVARIANCE_BENCHMARK: kernels["covariance"],
        TRANSFORM_BENCHMARK: kernels["transform"],
    }
    mine = [v for v in values if v.benchmark in wanted and v.params["variant"] == wanted[v.benchmark]]
    if len(mine) != len(wanted) + 1 or not all(map(is_usable, mine)):  # there are two covariances
        return None
    return sum(v.median or 0.0 for v in mine)


def host_hotspots(run: Run) -> list[Hotspot]:
    """Each step of each program on the host, and the whole of it last. For scaling, all steps but the eigenproblems take a
    constant time per pixel."""
    values = derive(run, {HOST_BENCHMARK})
    hotspots = []
    for library, steps in HOST_PROGRAM_STEPS.items():
        mine = {str(v.params["step"]): v for v in values if v.params["library"] == library}
        complete = all(step in mine and is_usable(mine[step]) for step in steps)
        times = {step: mine[step].median or 0.0 for step in steps} if complete else {}
        scaled = {
            step: time if step == "eigen" else time * PAPER_PIXELS / _pixels(str(mine[step].params["size"]))
            for step, time in times.items()
        }
        for step in (*steps, "whole"):
            if step in mine:
                shares = [of[step] / sum(of.values()) if step in of else None for of in (times, scaled)]
                hotspots.append(Hotspot(library, step, mine[step], *shares))
    return hotspots


def _pixels(size: str) -> int:
    width, height, _ = size.split("x")
    return int(width) * int(height)
