"""The page of a kernel: colours by what bounds it, and its place under the roofs of each device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.analysis.little import Estimate
from clmembench.analysis.roofline import Roofline
from clmembench.analysis.roofs import MEMORY, Roof
from clmembench.report import render
from clmembench.studies import SelectionError
from clmembench.studies.kernel import page, views
from clmembench.studies.kernel.device_views import device_tables
from clmembench.studies.kernel.facts import DevicePrediction
from clmembench.studies.kernel.facts_of_trace import facts_of
from tests.cases import each
from tests.commands import call
from tests.studies.kernel.test_cost import BUFFER, GROUP, ITEMS, traced

RUN = Path(__file__).parents[3] / "reports" / "xeon-2-cores-intel-quick.jsonl.gz"
SOURCE = "\n" * 6 + "y[i] = a * x[i];\n"
DEVICE = DevicePrediction("A GPU", 1e6, 9e5, 2e6, "memory", {}, (), None, None, None, (), {}, measured_ns=1.5e6,
                          measured_low_ns=1.4e6, measured_high_ns=1.6e6)  # fmt: skip
ROOFS = Roofline((Roof("FP32 vector", "GFLOP/s", Estimate.exact(1e4), "arithmetic", "float"),
                  Roof(MEMORY, "GB/s", Estimate.exact(1e3), "stream")), (), {}, 1 << 20)  # fmt: skip


def facts(trace, bound):
    found = facts_of(trace, None, None)
    totals = replace(found.totals, flops=1e9)
    return replace(found, totals=totals, text=SOURCE, devices=(replace(DEVICE, bound=bound),))


@each(("bound", "space", "name"), [
    ("memory", 1, "memory of A GPU"), ("local memory", 3, "local memory of A GPU"), ("issue", 1, "instructions"),
    ("local memory", 1, "instructions"), ("launch", 1, "instructions"),
])  # fmt: skip
def test_a_line_costs_its_share_of_what_bounds_the_launch(bound, space, name):
    found = views.line_shares(facts(traced(BUFFER + 4 * (ITEMS % GROUP), space=space), bound))
    assert found == (name, {7: 1.0})


def test_the_page_begins_with_times_and_roofline_and_colours_the_line():
    mine = facts(traced(BUFFER + 4 * ITEMS), "memory")
    document = views.document(mine)
    document = replace(document, sections=(*document.sections, *device_tables(mine.devices)))
    text = page.render_page(mine, document, {"A GPU": ROOFS})
    assert text.index("Time of the launch on each device</h3>") < text.index("k, predicted") < text.index('id="source"')
    assert "k, measured" in text and "60%, var(--paper)" in text
    without = page.render_page(replace(mine, totals=replace(mine.totals, flops=0)), document, {"A GPU": ROOFS})
    assert "predicted<" in without and "Roofline</h3>" not in without


def test_a_report_has_a_section_of_a_kernel_that_was_stored(tmp_path):
    mine = replace(facts(traced(BUFFER + 4 * ITEMS), "memory"), text=SOURCE + "// <script>alert(1)</script>\n")
    stored, other = tmp_path / "kernel.json", tmp_path / "other.json"
    stored.write_text(render.json_text(mine))
    text = page.file_section(stored)
    assert "Time of the launch on each device" in text and "y[i] = a * x[i];" in text and "<script>alert" not in text
    report = tmp_path / "report.html"
    code, _, said = call("report", RUN, stored, "-o", report)
    assert code == 0 and "Your kernel</h3>" in report.read_text(), said
    code, _, said = call("report", stored)
    assert code == 2 and "none of these is a run" in said
    other.write_text('{"kernel": 3}')
    with pytest.raises(SelectionError, match="trace it again"):
        page.file_section(other)
    other.write_text('{"devices": []}')
    assert page.file_section(other) is page.file_section(tmp_path / "none.json") is None
