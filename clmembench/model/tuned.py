"""Tuned configurations: the best one of a point on one family of devices, as it is stored and as a run's header keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clmembench.model.work import Value


@dataclass(frozen=True, slots=True)
class Tuned:
    """The best `tuning` parameters of every point of a benchmark that has these `params` (all of its plain ones, or some).

    `device` and `platform` are the family: the stem of the spec sheet that matches (else a CPU's identity, else the device's
    name), and the OpenCL platform's name, since each compiles in its own way. `compute_units`, `driver`, `tool_version` and
    `date` (ISO) say on what, with what and when it was found. `gain` is how many times the device's first choice it is, with
    its 95% interval; 1 without an interval where nothing beat the first choice, None where the first choice had no value.
    `origin` says whose file it is from.
    """

    device: str
    platform: str
    compute_units: int
    benchmark: str
    version: int
    params: Mapping[str, Value]
    tuning: Mapping[str, Value]
    date: str
    tool_version: str
    driver: str
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    origin: str = ""
