"""This host's CPU as devices of every runtime name it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def cpu_id() -> str:
    """vendor-family-model of this host's CPU as Linux numbers them; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return ""
    fields = dict(re.findall(r"^(vendor_id|cpu family|model)\s*:\s*(\S+)", text, re.MULTILINE))
    return "-".join(fields.get(key, "?") for key in ("vendor_id", "cpu family", "model")) if fields else ""
