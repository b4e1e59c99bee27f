"""The generated pages of the documentation site, by their path on it. None needs a device: python scripts/site_reference.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import site_benchmarks, site_commands, site_schemas, site_tables

PYTHON_API = """# Python API

Generated from the docstrings of this version. [Reading results](../reading.md#in-a-notebook) has examples.

## Runs as data

`import clmembench` has these names.

::: clmembench.report.frame.read

::: clmembench.report.scorecard.scorecard.headlines

## Figures

`clmembench.plots` draws the frames of `read` and `headlines` on axes of matplotlib.

::: clmembench.report.plots
    options:
      show_root_heading: false
      show_root_toc_entry: false
      filters: ["!^_", "!^[A-Z]"]

## Writing benchmarks

What a benchmark is written with. [Extending](../extending.md) explains it by an example.

::: clmembench.benchmarks.benchmark

::: clmembench.benchmarks.axis

::: clmembench.benchmarks.axis_of

::: clmembench.benchmarks.growing

::: clmembench.model.metrics.Metric

::: clmembench.model.benchmark.Axis

::: clmembench.model.metrics.Headline

::: clmembench.model.work
    options:
      show_root_heading: false
      show_root_toc_entry: false
      filters: ["!^_"]

::: clmembench.model.device
    options:
      show_root_heading: false
      show_root_toc_entry: false
      filters: ["!^_"]
"""


def pages() -> dict[str, str]:
    """Markdown of every generated page."""
    return {
        "reference/commands.md": site_commands.page(),
        "reference/benchmarks.md": site_benchmarks.benchmarks_page(),
        "reference/metrics.md": site_benchmarks.metrics_page(),
        "reference/schemas.md": site_schemas.page(),
        "reference/tables.md": site_tables.page(),
        "reference/python.md": PYTHON_API,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "reference-pages")
    for name, text in pages().items():
        path = folder / Path(name).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path)
