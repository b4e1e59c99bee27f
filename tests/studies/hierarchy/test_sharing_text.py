"""The block "Shared storage": in the drawing, the tables, JSON and CSV, and in what a stored run says again."""

import json
from dataclasses import replace

import pytest

from clmembench.benchmarks import discovered
from clmembench.measure import runner
from clmembench.measure.job import ProbeResult
from clmembench.model import Hierarchy
from clmembench.model.findings import measured_finding, undetermined_finding
from clmembench.plan.selection import Selection
from clmembench.report import finding_tables, render
from clmembench.report.frame import parts
from clmembench.results import jsonl
from clmembench.studies.hierarchy import plan as hierarchy
from clmembench.studies.hierarchy.plan import CPU_REASON, sharing_plan
from clmembench.studies.hierarchy.views import hierarchy_json
from clmembench.studies.hierarchy.views.section import device_values, markdown
from clmembench.studies.hierarchy.views.tree import columns, draw_tree
from tests.builders import CHASE, device, found_of, header, run, write_run
from tests.shared_storage import KIB, units_record
from tests.studies.hierarchy.test_shared_storage import measured, unit

IDS = ("cache_sharing:3:0",)
VOID = "loads from constant arrays take as long as global loads"
SHARING = {
    f.name: f
    for f in (
        measured_finding("stays_at_local_0_kib_bytes", 176 * KIB, "laps", IDS, 176 * KIB, 192 * KIB, "B"),
        measured_finding("stays_at_local_4_kib_bytes", 80 * KIB, "laps", IDS, 80 * KIB, 96 * KIB, "B"),
        measured_finding("local_with_first_cache", "shared", "laps", IDS),
        measured_finding("global_with_readonly", "shared", "laps", IDS, 0.94, 1.02),
        undetermined_finding("global_with_constant_array", VOID, "laps", IDS),
        undetermined_finding("units_of_a_constant_cache", VOID, "slices", IDS),
    )
}


def test_the_drawing_says_what_shares_storage_and_why_the_rest_is_open():
    text = draw_tree(Hierarchy(sharing=SHARING), width=100)
    block = " ".join(text.split("Shared storage\n")[1].split())
    assert "shared: global loads and read-only loads (0.94 to 1.02 of the control)" in block
    assert "undetermined: global loads and constant arrays [1]" in block
    assert "local memory and the first cache: shared" in block
    assert "176 to 192 KiB beside none, 80 to 96 KiB beside 4 KiB" in block
    assert block.count(VOID) == 1 and "undetermined who shares it [1]" in block
    assert "separate" not in block and max(map(columns, text.split("\n"))) <= 100


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (1, "each compute unit has its own"),
        (2, "2 compute units share one"),
        ("14 + 18", "groups of 14 + 18 compute units share one each"),
    ],
)
def test_units_are_said_by_how_many_share(value, says):
    finding = measured_finding("units_of_a_constant_cache", value, "slices", IDS)
    assert says in draw_tree(Hierarchy(sharing={finding.name: finding}))


def test_without_such_findings_nothing_is_drawn():
    assert "Shared storage" not in draw_tree(Hierarchy())
    assert [e for e in finding_tables.entries(Hierarchy()) if e.level == "sharing"] == []


def test_names_and_reasons_of_a_file_stay_in_their_lines():
    evil = "\x1b[31m_with_\n<script>"
    findings = {
        evil: undetermined_finding(evil, evil, evil, IDS),
        f"{evil}2": replace(SHARING["global_with_readonly"], name=evil),
    }
    text = draw_tree(Hierarchy(sharing=findings), width=80)
    assert [c for c in text if c != "\n" and not c.isprintable()] == []
    assert max(map(columns, text.split("\n"))) <= 80


def test_every_finding_is_in_csv_the_table_and_json():
    found = Hierarchy(sharing=SHARING)
    csv = render.csv_text(finding_tables.finding_fields(found))
    assert all(f"sharing,,{name}," in csv for name in SHARING)
    table = finding_tables.finding_table(found).rows
    assert table[0][0] == "Shared storage" and len(table) == 1 + len(SHARING)
    told = json.loads(render.json_text(hierarchy_json.hierarchy_fields(found)))["sharing"]
    assert told["global_with_readonly"]["value"] == "shared" and told["global_with_constant_array"]["reason"] == VOID


def test_a_report_has_the_block():
    (part,) = parts([run([], header(device()))], findings=found_of(Hierarchy(sharing=SHARING)))
    assert "Shared storage" in markdown(part)
    values = device_values("GPU", part.findings["hierarchy"], device(), None)
    assert any("read-only loads" in text for text in values["sharing"])


def test_a_stored_run_tells_it_again(tmp_path):
    records = [*measured(unit()), units_record([[0, 1], [2, 3]])]
    path = tmp_path / "shared.jsonl"
    write_run(path, records, header(device(), {"chase": CHASE, "cache_sharing": CHASE}))
    found = hierarchy.infer_stored(jsonl.read(path)).hierarchy
    assert found.sharing["global_with_readonly"].value == "shared"
    assert found.sharing["global_with_constant_array"].value == "separate"
    assert found.sharing["units_of_a_constant_cache"].value == 2
    assert hierarchy.infer_stored(run([], header(device()))).hierarchy.sharing == {}


def test_on_a_cpu_no_worker_starts_and_the_reason_is_a_note():
    info = device(kind="cpu", runtime="fake")
    probe = ProbeResult(frozenset({"tsc"}), None, "", 1.0)
    benchmark = discovered()["cache_sharing"]
    (record,) = runner.run_plan(sharing_plan(info), benchmark, "fake", info, probe, Selection())
    assert (record.status, record.reason) == ("skipped", CPU_REASON)
    found = hierarchy.infer_stored(run([record], header(info))).hierarchy
    assert found.sharing == {} and f"shared storage: {CPU_REASON}" in found.notes
    assert CPU_REASON[:40] in " ".join(draw_tree(found).split())
