"""`model measure` and `model validate` from beginning to end on a GPU by simulated queues, whose inputs are known."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from clmembench.cli import devices, exit_codes
from clmembench.measure import runner, worker_process
from clmembench.measure.job import ProbeResult
from clmembench.model import Point
from clmembench.plan.selection import selected_benchmarks
from clmembench.plan.sweep import explore
from clmembench.report.schemas import schemas
from clmembench.results import jsonl
from clmembench.studies.memory_divergence import mdm_frozen
from clmembench.studies.memory_divergence import plan as mdm
from clmembench.studies.memory_divergence.mdm_inputs import HardwareSheet, load_hardware
from clmembench.studies.memory_divergence.model.knee import knee
from clmembench.studies.memory_divergence.model.predict import predictions
from clmembench.studies.memory_divergence.views import mdm_tables, mdm_validation
from tests.builders import run as built_run
from tests.builders import walked
from tests.commands import cli
from tests.mdm_device import SimulatedGpu

GPU = SimulatedGpu()


def put_in_place(patch, gpu, order=None):
    """Have the commands find and measure the simulated GPU: everything but the runner's worker processes is their own."""

    def run_selections(runtime, info, found, selections, budget_s):
        for selection in selections:
            for glob in selection.globs:
                yield from gpu.run_plan(explore(selected_benchmarks(replace(selection, globs=(glob,)))[0], info, selection))

    def run_plan(plan, benchmark, *args, **kwargs):
        if order is not None:
            order.append(benchmark.name)
        return gpu.run_plan(plan)

    info = gpu.info
    patch.setattr(devices, "listed", lambda *_: [info])
    patch.setattr(worker_process, "probed", lambda *_: ProbeResult(info.features, gpu.alu_cycles, "simulated", 1.0))
    patch.setattr(runner, "run_selections", run_selections)
    patch.setattr(runner, "run_plan", run_plan)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run that `model validate -d 0` measured, and what the command printed."""
    folder = tmp_path_factory.mktemp("validate")
    with pytest.MonkeyPatch.context() as patch:
        put_in_place(patch, GPU)
        done = cli("model", "validate", "-d", "0", "-o", str(folder / "run.jsonl"), "--json")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def copied(measured, tmp_path, change=lambda record: record, predictions=True) -> Path:
    """The run in another folder, with its records changed, and with or without the predictions beside it."""
    folder, _ = measured
    run = jsonl.read(folder / "run.jsonl")
    path = tmp_path / "run.jsonl"
    with jsonl.Writer(path, run.header) as writer:
        for record in run.records:
            if (new := change(record)) is not None:
                writer.write(new)
    for file in folder.glob("predictions-*.json") if predictions else ():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return path


@pytest.mark.slow
def test_over_300_configurations_are_held_against_frozen_predictions(measured):
    folder, found = measured
    assert len(found["points"]) == 336 and found["state"] == "frozen" and found["left"] == {}
    (file,) = folder.glob("predictions-*.json")
    assert mdm_frozen.digest(file.read_text()) == found["sha256"] and file.name == f"predictions-{found['sha256'][:16]}.json"
    run = jsonl.read(folder / "run.jsonl")
    names = [record.benchmark for record in run.records]
    first = names.index("memory_divergence")
    assert set(names[:first]) == {"pchase", "cache_read", "arithmetic", "mlp"} and set(names[first:]) == {"memory_divergence"}
    assert all(found["sha256"] in " ".join(record.notes) for record in run.records[first:])
    assert found["clock_ratio"] == pytest.approx(1, abs=0.01)


def test_what_is_printed_has_its_schema(measured):
    assert [error.message for error in Draft202012Validator(schemas()["model-validate"]).iter_errors(measured[1])] == []


def test_inputs_are_those_of_the_device(measured):
    q = measured[1]["hardware"]["quantities"]
    truth = {"compute_units": 16, "clock_ghz": 1.5, "mshrs": 96, "noc_gb_s": 1500, "dram_gb_s": 600,
             "llc_latency_cycles": 250, "dram_latency_cycles": 350, "schedulers": 4, "dependent_cycles": 4}  # fmt: skip
    for name, value in truth.items():
        low, high = (q[name]["value"] if q[name][end] is None else q[name][end] for end in ("low", "high"))
        assert low * 0.99 <= value <= high * 1.01, (name, q[name])
        assert q[name]["value"] == pytest.approx(value, rel=0.03), name
        assert q[name]["source"]
    assert q["llc_bytes"]["low"] <= GPU.llc_bytes <= q["llc_bytes"]["high"]
    assert q["mshrs"]["bound"] == ""


def test_errors_are_those_of_measured_and_predicted_ipc(measured):
    """By the points alone; and the queues show what is known of MDM: it adds latencies that overlap, so it predicts too few
    instructions a cycle where intervals are divergent, and GPUMech too many."""
    found = measured[1]
    for reading, model, kind in (("block", "MDM", "MD"), ("block", "GPUMech", "all"), ("sector", "MDM", "NMD")):
        mine = [p for p in found["points"] if kind == "all" or p["divergent"] == (kind == "MD")]
        ratios = [p["predicted"][reading][model] / p["ipc_sm"] for p in mine]
        (row,) = [e for e in found["errors"] if (e["reading"], e["model"], e["kind"]) == (reading, model, kind)]
        assert row["count"] == len(mine) > 50
        assert row["mean_error_percent"] == pytest.approx(100 * sum(abs(r - 1) for r in ratios) / len(ratios))
        assert row["mean_log_ratio"] == pytest.approx(sum(abs(math.log(r)) for r in ratios) / len(ratios))
        assert row["bias"] == pytest.approx(math.exp(sum(map(math.log, ratios)) / len(ratios)))
    bias = {(e["model"], e["kind"]): e["bias"] for e in found["errors"] if e["reading"] == "block"}
    assert bias["MDM", "MD"] < 0.7 and bias["GPUMech", "MD"] > 1.05 and 0.85 < bias["MDM", "NMD"] < 1.1
    paper = {(e["model"], e["kind"]): e["paper_percent"] for e in found["errors"] if e["reading"] == "block"}
    assert paper["MDM", "MD"] == 32 and paper["GPUMech", "MD"] == 444 and paper["MDM-overlap", "MD"] is None


def test_no_schedule_of_the_queues_beats_the_bound():
    """With the true inputs and in the steady state the bound is met and never beaten: queues obey the law that it is."""
    table = load_hardware("wang2019-table1").quantities
    truth = {"compute_units": GPU.units, "clock_ghz": GPU.ghz, "mshrs": GPU.mshrs, "noc_gb_s": GPU.noc_gb_s,
             "dram_gb_s": GPU.dram_gb_s, "llc_latency_cycles": GPU.llc_cycles, "dram_latency_cycles": GPU.dram_cycles,
             "schedulers": GPU.issue, "issue_per_scheduler": 1, "llc_bytes": GPU.llc_bytes,
             "dependent_cycles": GPU.alu_cycles}  # fmt: skip
    exact = {name: replace(table.block_bytes, value=float(value)) for name, value in truth.items()}
    sheet = HardwareSheet("simulated", "its truth", replace(table, **exact))
    ratios = []
    for params in mdm.validation_points(GPU.info)[::11]:
        profile = mdm.profile_of(params, sheet)
        (bound,) = predictions(sheet, profile, models=("bound",))
        cycles = GPU.cycles(Point("memory_divergence", params), (30, 90))
        ratios.append(profile.warps * profile.interval[0].instructions / cycles / bound.ipc_sm)
    assert max(ratios) == pytest.approx(1, abs=1e-3) and len(ratios) > 30


def test_a_stored_run_is_held_against_its_predictions_again(measured, tmp_path):
    path, figure = copied(measured, tmp_path), tmp_path / "validation.svg"
    done = cli("model", "validate", str(path), "--figure", str(figure))
    assert done.returncode == 0
    drawn = figure.read_text()
    assert all(text in drawn for text in ("MDM-overlap: predicted over measured", "waiting for an MSHR", "NMD, in the paper"))
    for part in ("Errors of predicted IPC.", "444%", "MDM-overlap", "frozen before the measurement", "sub_groups=64"):
        assert part in done.stdout, part
    assert cli("model", "validate", str(path), "--md").returncode == 0
    done = cli("model", "validate", str(path), "--figure", str(tmp_path / "x.bmp"))
    assert done.returncode == exit_codes.USAGE and ".png, .svg, .pdf" in done.stderr


def test_a_report_has_the_tables(measured):
    run = jsonl.read(measured[0] / "run.jsonl")
    sections = mdm_tables.sections(run, [])
    assert sections[0].title == "Errors of predicted IPC." and len(sections) == 4
    bare = replace(run, records=tuple(r for r in run.records if r.benchmark == "memory_divergence"))
    (told,) = mdm_tables.sections(replace(bare, path=str(Path("elsewhere") / "run.jsonl")), [])
    assert "undetermined" in str(told.rows[0][1])


@pytest.mark.slow
def test_predictions_that_were_lost_are_made_again_and_have_the_same_hash(measured, tmp_path):
    run = jsonl.read(copied(measured, tmp_path, predictions=False))
    again = mdm_validation.validation(run, None)
    assert again.state == "remade" and again.sha256 == measured[1]["sha256"]
    assert [p.measured.value for p in again.compared["block"]] == [p["ipc_sm"] for p in measured[1]["points"]]


@pytest.mark.slow
def test_predictions_of_other_inputs_are_not_called_frozen(measured, tmp_path):
    def slower(record):
        return (
            replace(record, params={**record.params, "lines": 2 * int(record.params["lines"])})
            if record.benchmark == "mlp"
            else record
        )

    run = jsonl.read(copied(measured, tmp_path, slower, predictions=False))
    found = mdm_validation.validation(run, None)
    assert found.state == "changed" and found.sha256 != measured[1]["sha256"]


def test_damaged_predictions_are_refused(measured, tmp_path):
    path = copied(measured, tmp_path)
    (file,) = tmp_path.glob("predictions-*.json")
    file.write_text(file.read_text().replace('"ipc_sm": 1', '"ipc_sm": 2', 1))
    done = cli("model", "validate", str(path))
    assert done.returncode == exit_codes.USAGE and "not those that its records name" in done.stderr
    with pytest.raises(mdm_frozen.FrozenError, match="no frozen predictions"):
        mdm_frozen.thaw("{}")


def test_what_was_not_measured_is_counted_with_its_reason(measured, tmp_path):
    def skipped(record):
        if record.benchmark == "memory_divergence" and record.params["stores"]:
            return replace(record, status="skipped", reason="the budget was spent", series=(), checked=False)
        return record

    path = copied(measured, tmp_path, skipped)
    found = json.loads(cli("model", "validate", str(path), "--json").stdout)
    assert found["left"] == {"the budget was spent": 168} and len(found["points"]) == 168


def test_without_an_input_nothing_is_predicted(measured, tmp_path):
    path = copied(measured, tmp_path, lambda r: None if r.benchmark == "cache_read" else r, predictions=False)
    done = cli("model", "validate", str(path))
    assert done.returncode == exit_codes.INCONCLUSIVE and "noc_gb_s" in done.stderr and done.stdout == ""
    done = cli("model", "measure", str(path))
    assert done.returncode == exit_codes.INCONCLUSIVE
    assert "# noc_gb_s is missing: no read bandwidth" in done.stdout and "noc_gb_s, dram_gb_s" in done.stderr


def test_measured_inputs_are_hardware_that_predict_reads(measured, tmp_path):
    done = cli("model", "measure", str(copied(measured, tmp_path)))
    assert done.returncode == 0
    (tmp_path / "gpu.toml").write_text(done.stdout)
    sheet = load_hardware(str(tmp_path / "gpu.toml"))
    assert sheet.quantities.mshrs.value == pytest.approx(96, rel=0.02) and sheet.name == "Simulated GPU"
    (tmp_path / "profile.toml").write_text("warps = 64\n[[interval]]\ninstructions = 50\nstall_cycles = 300\nread_misses = 4\n")
    made = cli("model", "predict", str(tmp_path / "gpu.toml"), str(tmp_path / "profile.toml"), "--json")
    mdm_found = json.loads(made.stdout)[0]
    assert mdm_found["ipc_sm_low"] < mdm_found["ipc_sm"] < mdm_found["ipc_sm_high"]


def test_measure_runs_no_kernels_and_prints_toml_alone(tmp_path, monkeypatch):
    order: list[str] = []
    put_in_place(monkeypatch, GPU, order)
    done = cli("model", "measure", "-d", "0", "-o", str(tmp_path / "inputs.jsonl"))
    assert done.returncode == 0 and order == ["mlp"]
    (tmp_path / "gpu.toml").write_text(done.stdout)
    assert load_hardware(str(tmp_path / "gpu.toml")).quantities.compute_units.value == 16


def test_a_gpu_without_a_cycle_counter_is_not_predicted_and_the_exit_code_says_so(tmp_path, monkeypatch):
    put_in_place(monkeypatch, replace(GPU, has_counter=False))
    done = cli("model", "validate", "-d", "0", "-o", str(tmp_path / "run.jsonl"))
    assert done.returncode == exit_codes.INCONCLUSIVE and done.stdout == ""
    assert "no predictions, so no kernels were measured: clock_ghz: no point has the core's clock" in done.stderr
    run = jsonl.read(tmp_path / "run.jsonl")
    assert {record.benchmark for record in run.records} == set(mdm.INPUTS), "what was measured is kept"
    assert list(tmp_path.glob("predictions-*")) == []


@pytest.mark.parametrize("command", ["measure", "validate"])
def test_cpus_are_refused_with_the_reason_in_one_line(command, monkeypatch, tmp_path):
    cpu = replace(GPU.info, kind="cpu", name="Some CPU")
    monkeypatch.setattr(devices, "listed", lambda *_: [cpu])
    done = cli("model", command, "-d", "0", "-o", str(tmp_path / "x.jsonl"))
    assert (done.returncode, done.stdout) == (exit_codes.USAGE, "")
    assert done.stderr.startswith("clmembench: Some CPU is a CPU") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    stored = next(Path(__file__).parents[3].glob("reports/xeon-2-cores-pocl-quick.jsonl.gz"))
    done = cli("model", command, str(stored))
    assert (done.returncode, done.stdout) == (exit_codes.USAGE, "") and "is a CPU" in done.stderr


def knee_of(gpu, keep=lambda point: True):
    answers = [gpu.answer(point) for point in walked(mdm.mlp_plan(gpu.info)) if keep(point)]
    from clmembench.analysis.derive import derive
    from clmembench.cli.running.session import cards
    from tests.builders import header

    return knee(derive(built_run(answers, header(gpu.info, cards(["mlp"])))))


@pytest.mark.parametrize("mshrs", [24, 96, 200])
def test_the_knee_is_the_number_of_mshrs(mshrs):
    found = knee_of(replace(GPU, mshrs=mshrs))
    assert found.lines is not None and found.bound == "" and found.evidence
    assert found.lines.low * 0.98 <= mshrs <= found.lines.high * 1.02 and found.lines.value == pytest.approx(mshrs, rel=0.1)


def test_where_bandwidth_gives_out_first_the_knee_is_a_lower_bound():
    found = knee_of(replace(GPU, mshrs=2000, port_bytes_per_cycle=16.0))  # 250 cycles x 16 B: 125 lines
    assert found.bound == "lower" and found.lines is not None and found.lines.value <= 2000 and "bandwidth" in found.reason


def test_where_a_line_arrives_in_every_cycle_the_knee_is_a_lower_bound():
    found = knee_of(replace(GPU, mshrs=2000, port_bytes_per_cycle=32.0))
    assert found.bound == "lower" and found.lines is not None and "a line arrives in every cycle" in found.reason
    assert found.lines.value == pytest.approx(250, rel=0.05)


def test_the_first_lines_of_a_round_may_lie_nearer_than_the_plateau():
    """As on an H200: one line took 121 ns, two 173, four 185, and 32 to 384 took 217 to 221."""
    from clmembench.studies.memory_divergence.model.knee import knee

    def nearer(point):
        answer = GPU.answer(point)
        lines = point.params["lines"]
        share = {1: 0.55, 2: 0.8, 4: 0.85, 8: 0.9, 16: 0.94}.get(lines, 1.0)
        times = [
            replace(one, **{name: scaled(getattr(one, name), share) for name in ("host_ns", "device_ns")})
            for one in answer.series
        ]
        return replace(answer, series=tuple(times))

    def scaled(times, share):
        return None if times is None else tuple(round(share * time) for time in times)

    answers = [nearer(point) for point in walked(mdm.mlp_plan(GPU.info))]
    from clmembench.analysis.derive import derive
    from clmembench.cli.running.session import cards
    from tests.builders import header

    found = knee(derive(built_run(answers, header(GPU.info, cards(["mlp"])))))
    assert found.lines is not None and found.bound == "" and found.lines.value == pytest.approx(GPU.mshrs, rel=0.1)


def test_where_all_lines_fit_the_most_that_was_tried_is_a_lower_bound():
    found = knee_of(replace(GPU, mshrs=1 << 16))
    assert found.bound == "lower" and found.lines is not None and found.lines.value == 4096


def test_too_few_rounds_tell_nothing():
    found = knee_of(GPU, lambda point: point.params["lines"] <= 4)
    assert found.lines is None and "only 3 rounds" in found.reason


def test_the_page_has_the_errors_of_this_device(measured):
    page = (Path(__file__).parents[3] / "docs" / "memory-divergence.md").read_text(encoding="utf-8")
    errors = {(e["model"], e["kind"]): e["mean_error_percent"] for e in measured[1]["errors"] if e["reading"] == "block"}
    rows = re.findall(r"^\| (\S+)(?: \(ours\))? \| (\d+)% \| [\d.]+x \| (\d+)% \| [\d.]+x \|", page, re.MULTILINE)
    assert len(rows) == 7
    for model, divergent, other in rows:
        assert errors[model, "MD"] == pytest.approx(float(divergent), abs=1.5), model
        assert errors[model, "NMD"] == pytest.approx(float(other), abs=1.5), model
