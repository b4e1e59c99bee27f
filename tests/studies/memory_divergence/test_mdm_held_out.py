"""Held-out kernels: declared profiles by hand, and their times on the committed runs of an H200."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from clmembench.cli.running.session import cards
from clmembench.report.frame import sheet_of
from clmembench.resources import mdm_hardware_paths
from clmembench.results import jsonl
from clmembench.studies.memory_divergence import held_out_plan as mdm_held_out
from clmembench.studies.memory_divergence.mdm_inputs import load_hardware
from clmembench.studies.memory_divergence.model.equations import MODELS
from clmembench.studies.memory_divergence.views import mdm_held_out as report
from clmembench.studies.memory_divergence.views import mdm_outputs
from clmembench.studies.memory_divergence.views.mdm_validation import inputs_of
from tests.builders import clock, header, record, run, series
from tests.commands import cli

RUNS = Path(__file__).parents[3] / "reports"
H200 = load_hardware("h200-sxm")


class Value:
    """As much of a derived value as a declaration looks at."""

    def __init__(self, benchmark, nbytes=0, flops=0, facts=None, tuning=None, **params):
        self.benchmark, self.nbytes, self.flops, self.params = benchmark, nbytes, flops, params
        self.facts, self.tuning = facts or {}, tuning or {}


def test_a_transposition_by_hand():
    """8192 x 8192 words in tiles of 32 x 32, 8 sub-groups each: 4 loads of a line, and 4 stores that touch 32 rows."""
    kernel = mdm_held_out.kernel_of(Value("transpose", n=8192, way="direct"))
    assert kernel.sub_groups == 256 * 256 * 8
    (step,) = kernel.steps
    assert (step.read_lines, step.read_sectors, step.write_lines, step.write_sectors) == (4, 16, 128, 128)
    assert step.memory_bytes == 1024, "each word is read once and written once"
    (block,) = mdm_held_out.profile_of(kernel, 64, H200, sectors=False).interval
    (sector,) = mdm_held_out.profile_of(kernel, 64, H200, sectors=True).interval
    assert (block.read_misses, block.write_misses, block.request_bytes) == (4, 128, 128)
    assert block.llc_miss_ratio == pytest.approx(1024 / (132 * 128))
    assert sector.request_bytes == pytest.approx(32 * 144 / 132)
    assert sector.llc_miss_ratio == pytest.approx(1024 / (32 * 144))
    # rows of 4095 words begin anywhere: 32 words touch a second line but for one place of 32
    (odd,) = mdm_held_out.kernel_of(Value("transpose", n=4095, way="direct")).steps
    assert odd.read_lines == pytest.approx(4 * (1 + 31 / 32)) and odd.read_sectors == pytest.approx(4 * (4 + 7 / 8))


def test_a_copy_moves_every_byte_once():
    for dtype, nbytes in (("char", 1), ("float4", 16), ("double4", 32)):
        kernel = mdm_held_out.kernel_of(Value("datatypes", nbytes=1 << 30, dtype=dtype, tuning={"elements": 4}))
        assert kernel.sub_groups * 32 * 4 * nbytes == 1 << 29
        assert sum(step.memory_bytes * step.repeats for step in kernel.steps) * kernel.sub_groups == 1 << 30


def test_occupancy_follows_from_registers():
    assert mdm_held_out.resident_sub_groups(Value("spmv"), H200) == 64
    assert mdm_held_out.resident_sub_groups(Value("spmv", facts={"registers": 64}), H200) == 32


@pytest.mark.parametrize(
    "value",
    [Value("spmv", matrix="power_law", hints="none", format="csr_row", flops=1e6),
     Value("mnf_filter", variant="V3", size="8x8x8"), Value("datatypes", dtype="device_copy"), Value("stream", op="copy")],
)  # fmt: skip
def test_what_is_not_declared_is_left_out(value):
    assert mdm_held_out.kernel_of(value) is None


@pytest.fixture(scope="module")
def found():
    """Every held-out kernel of the committed runs, by name."""
    kernels = {}
    for name in ("access", "mnf", "peers"):
        run = jsonl.read(RUNS / f"h200-sxm-{name}.jsonl.gz")
        for one in report.held_out(run, sheet_of(run))[0]:
            assert one.name not in kernels
            kernels[one.name] = one
    return kernels


def test_committed_runs_have_every_kind_of_held_out_kernel(found):
    kinds = {name.split()[0] for name in found}
    assert kinds == {"transpose", "copy", "mnf_filter", "spmv"} and len(found) == 28
    for one in found.values():
        assert set(one.predicted_us) == {(reading, model) for reading in ("block", "sector") for model in MODELS}
        for time, low, high in one.predicted_us.values():
            assert 0 < low <= time <= high


def test_no_copy_beats_the_bound_and_ours_is_near_the_measurement(found):
    """What the page states of these runs: ours within 30% for copies and SpMV, MDM far too pessimistic with few MSHRs, and both
    too optimistic where local memory or the first cache bind."""
    streaming = [one for name, one in found.items() if name.startswith(("copy", "spmv"))]
    for one in streaming:
        assert 0.89 < math.exp(one.log_ratio("block", "MDM-overlap")) < 1.3, one.name
        assert one.log_ratio("block", "bound") > math.log(0.9), one.name
    assert math.exp(found["copy float"].log_ratio("block", "MDM")) < 0.5
    assert math.exp(found["mnf_filter V1"].log_ratio("block", "MDM-overlap")) > 2
    assert math.exp(found["transpose tile, n=8192"].log_ratio("block", "MDM-overlap")) > 2


def test_a_run_with_held_out_kernels_alone_is_shown():
    done = cli("model", "validate", str(RUNS / "h200-sxm-mnf.jsonl.gz"))
    assert done.returncode == 0 and "mnf_filter V0n" in done.stdout and "bank conflicts" in done.stdout
    held = json.loads(cli("model", "validate", str(RUNS / "h200-sxm-mnf.jsonl.gz"), "--json").stdout)["held_out"]
    assert [one["kernel"] for one in held] == ["mnf_filter V0n", "mnf_filter V1"]


def test_without_inputs_of_the_device_nothing_is_predicted():
    run = jsonl.read(RUNS / "h200-sxm-mnf.jsonl.gz")
    other = replace(run, header=replace(run.header, device=replace(run.header.device, name="Another GPU")))
    with pytest.raises(ValueError, match="noc_gb_s"):
        report.held_out(other, None)


@pytest.mark.slow
def test_the_shipped_inputs_are_those_of_the_committed_runs():
    runs = [jsonl.read(RUNS / f"h200-sxm-{name}.jsonl.gz") for name in ("topology", "access", "peers")]
    (shipped,) = [path for path in mdm_hardware_paths() if path.stem == "h200-sxm"]
    assert mdm_outputs.inputs_toml(inputs_of(runs, sheet_of(runs[0]))) == shipped.read_text(encoding="utf-8")


def test_the_latency_of_an_operation_is_that_of_multiply_adds_where_a_run_has_it():
    times = [5000 + n % 3 for n in range(16)]
    ends = (series(times, ops=1000), series([ns + 4200 for ns in times], ops=3000))
    multiply_add = record("instruction", {"op": "fma", "dtype": "float", "lanes": 1}, *ends, core_clock=clock(2.0, 5.0))
    other = record("instruction", {"op": "sin", "dtype": "float", "lanes": 1}, *ends, core_clock=clock(2.0, 5.0))
    head = header(cards=cards(["instruction"]))
    assert inputs_of([run([multiply_add], head)], None).found["dependent_cycles"].value == pytest.approx(4.2, rel=0.01)
    assert inputs_of([run([other], head)], None).found["dependent_cycles"].value == 5.0
