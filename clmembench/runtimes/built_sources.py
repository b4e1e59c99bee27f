"""Programs that a device has built: options, keys and hashes of their sources, and the first error of a failed build."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from clmembench.model import Value


def first_error(log: str) -> str:
    """The first line of a build log that names an error, without the driver's file name for the source."""
    for line in log.splitlines():
        if re.search(r"\berror\b(?! generated)", line, re.IGNORECASE) and "clBuildProgram failed" not in line:
            return "build failed: " + re.sub(r"(?:^|(?<= ))\S*?(?=\d+:\d+:|line )", "", line.strip())
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return "build failed: " + (lines[0] if lines else "the driver gave no log")


def options_of(defines: Mapping[str, Value]) -> list[str]:
    """Compiler options that define these macros."""
    return [f"-D{name}={int(v) if isinstance(v, bool) else v}" for name, v in sorted(defines.items())]


class BuiltSources:
    """Sources that were built since the last call of `hashes`, with their options."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def add(self, source: str, options: list[str]) -> str:
        """Record a build; the result is a key of its program."""
        self._keys.append(source + "\0" + " ".join(options))
        return self._keys[-1]

    def hashes(self) -> str:
        """Two hashes of what was built since the last call, joined by a dash: of the sources only, and of sources and
        options."""
        built, self._keys = sorted(set(self._keys)), []
        alone = sorted({key.partition("\0")[0] for key in built})
        return "-".join(hashlib.sha256("\0\0".join(text).encode()).hexdigest()[:16] for text in (alone, built)) if built else ""
