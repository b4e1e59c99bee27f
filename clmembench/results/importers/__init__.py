"""Readers of other programs' result files: each makes imported runs of a text, and raises ImportFault for another file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from clmembench.results.imported import ImportedRun
from clmembench.results.importers import babelstream, clpeak, mt4g, nvbandwidth

READERS: Mapping[str, Callable[[str], list[ImportedRun]]] = {
    "babelstream": babelstream.read,
    "clpeak": clpeak.read,
    "nvbandwidth": nvbandwidth.read,
    "mt4g": mt4g.read,
}
