"""Shape of the table of libraries as `peers --json` prints it."""

from __future__ import annotations

from typing import Literal

# pydantic refuses the TypedDict of typing before Python 3.12
from typing_extensions import TypedDict

from clmembench.model import Fact, Status, Value
from clmembench.report.json_outputs import Number


class PeerObject(TypedDict):
    """A peer on the same problem."""

    benchmark: str
    status: Status | Literal["undetermined"]
    reason: str
    metric: str
    unit: str
    median: Number
    ci_low: Number
    ci_high: Number
    interval: str | None
    process_medians: list[float]
    facts: dict[str, Value]
    verified: bool
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    peer_reason: str
    other_processes_cpu: float | bool | str | None


class PeerLineObject(TypedDict):
    """A problem: our value, the theoretical limit and every peer's."""

    benchmark: str
    what: dict[str, Value]
    choice: str
    status: Status | Literal["undetermined"]
    reason: str
    metric: str
    unit: str
    median: Number
    ci_low: Number
    ci_high: Number
    interval: str | None
    process_medians: list[float]
    params: dict[str, Value]
    tuning: dict[str, Value]
    clock: str
    limit: Number
    limit_source: str | None
    fraction_of_limit: Number
    peers: list[PeerObject]


class PeersObject(TypedDict):
    """Ours and the host's libraries and programs on the same problems."""

    started: str
    device: str
    platform: str
    driver: str
    host: Fact
    versions: dict[str, str]
    lines: list[PeerLineObject]
