"""The first error of a build log, in one line."""

from __future__ import annotations

import re


def first_error(log: str) -> str:
    """The first line of a build log that names an error, without the driver's file name for the source."""
    for line in log.splitlines():
        if re.search(r"\berror\b(?! generated)", line, re.IGNORECASE) and "clBuildProgram failed" not in line:
            return "build failed: " + re.sub(r"(?:^|(?<= ))\S*?(?=\d+:\d+:|line )", "", line.strip())
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return "build failed: " + (lines[0] if lines else "the driver gave no log")
