"""What a device has built: options of a source, the key of a program, and the hashes that a record keeps of both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from clmembench.model import Value


def options_of(defines: Mapping[str, Value]) -> list[str]:
    """Options of the compiler that define these macros."""
    return [f"-D{name}={int(v) if isinstance(v, bool) else v}" for name, v in sorted(defines.items())]


class BuiltSources:
    """Sources and their options that were built since they were last asked for."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def add(self, source: str, options: list[str]) -> str:
        """Note a build; its key is that of the program."""
        self._keys.append(source + "\0" + " ".join(options))
        return self._keys[-1]

    def hashes(self) -> str:
        """Two hashes of what was built since the last call, joined by a dash: of the sources alone, and with their options."""
        built, self._keys = sorted(set(self._keys)), []
        alone = sorted({key.partition("\0")[0] for key in built})
        return "-".join(hashlib.sha256("\0\0".join(text).encode()).hexdigest()[:16] for text in (alone, built)) if built else ""
