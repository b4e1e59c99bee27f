"""Published errors of the memory divergence model and of the models that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from clmembench.resources import mdm_published_errors_path
from clmembench.studies.memory_divergence.mdm_inputs import load_toml


@dataclass(frozen=True, slots=True)
class PublishedError:
    """An average error of predicted IPC that was published; classes are MD (memory-divergent), NMD (not) and all."""

    model: str
    kind: Literal["MD", "NMD", "all"]
    error_percent: float
    source: str
    read_from: Literal["text", "table", "figure"]
    quote: str


@dataclass(frozen=True, slots=True)
class PublishedBenchmark:
    """A benchmark that the published errors are averages over."""

    name: str
    suite: str
    kind: Literal["MD", "NMD"]
    source: str


@dataclass(frozen=True, slots=True)
class PublishedErrors:
    """The errors of these models that a paper published."""

    error: tuple[PublishedError, ...]
    benchmark: tuple[PublishedBenchmark, ...]


@cache
def published_errors() -> PublishedErrors:
    """The errors that Wang et al. published. Raises InputError."""
    found: PublishedErrors = load_toml(mdm_published_errors_path(), PublishedErrors, "list of published errors")
    return found
