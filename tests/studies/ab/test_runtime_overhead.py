"""`run --runtime opencl,sycl`: sentences on made-up outcomes, refusals, and both runtimes where `sycl` is installed."""

from __future__ import annotations

import json

import pytest

from clmembench.analysis import stats
from clmembench.results import jsonl
from clmembench.studies.ab import ab_decision
from clmembench.studies.ab.ab_decision import Outcome
from clmembench.studies.ab.ab_outcome import layer_sentences
from tests.commands import brief_points, cli
from tests.runtimes.test_runtimes import cpu_of


def outcome(metric: str, a: float, b: float, verdict: str, better: str = "lower", spread: float = 0.03, **more) -> Outcome:
    """A value that is B / A times as large in B, within that spread."""
    value = b / a
    low, high = value * (1 - spread), value * (1 + spread)
    ratio = stats.Ratio(value, low, high)
    gain = ratio if better == "higher" else stats.Ratio(1 / value, 1 / high, 1 / low)
    unit = "GB/s" if better == "higher" else "ns"
    return Outcome(more.pop("benchmark", "x"), more, metric, unit, better, verdict, a, b, ratio, gain, 14, None, "", ())


def test_a_call_that_takes_longer_says_how_many_times_and_how_much():
    (said,) = layer_sentences([outcome("round_trip", 4000.0, 6000.0, "slower", groups=1)], "OpenCL", "SYCL")
    assert said == (
        "Through SYCL a launch and the wait for it (groups=1) takes 1.50 times as long (1.46 to 1.54), 2.0 us more."
    )


def test_a_call_that_takes_less_says_so_and_one_that_takes_the_same_says_no_difference():
    less, same = outcome("dispatch", 4000.0, 2000.0, "faster"), outcome("dispatch", 4000.0, 4100.0, "same")
    assert layer_sentences([less], "OpenCL", "SYCL")[0].endswith("0.50 times as long (0.48 to 0.52), 2.0 us less.")
    (said,) = layer_sentences([same], "OpenCL", "SYCL")
    assert said == "Through SYCL a back-to-back launch takes as long within the margin: 1.02 times (0.99 to 1.06)."


@pytest.mark.parametrize("spread", [0.05, 0.6])
def test_what_is_undecided_is_neither_the_same_nor_different(spread):
    """The interval holds 1 in one case and not in the other; a sequential test decides by more than that."""
    calls = outcome("dispatch", 4000.0, 4400.0, "undecided", spread=spread)
    kernels = outcome("bandwidth", 20.0, 22.0, "undecided", "higher", spread, benchmark="stream", op="triad")
    (said,) = layer_sentences([calls, kernels], "OpenCL", "SYCL")
    assert said == "Undecided: a back-to-back launch; stream op=triad, bandwidth."


def test_kernels_that_agree_are_told_together_and_one_that_does_not_by_name():
    triad = outcome("bandwidth", 20.0, 20.2, "same", "higher", benchmark="stream", op="triad")
    dgemm = outcome("performance", 20.0, 15.0, "slower", "higher", benchmark="dgemm", n=512)
    assert layer_sentences([triad], "OpenCL", "SYCL") == [
        "Kernels and large copies take the same time under OpenCL and SYCL within the margin, in 1 value."
    ]
    agree, apart = layer_sentences([triad, dgemm], "OpenCL", "SYCL")
    assert "in 1 value" in agree
    assert apart.startswith("dgemm n=512, performance: SYCL gives 0.750 times OpenCL's value (0.728 to 0.772)")


def test_a_value_without_a_ratio_is_not_spoken_of():
    undecided = Outcome("x", {}, "round_trip", "ns", "lower", "undecided", 1.0, 2.0, None, None, 3, None, "", ())
    failed = Outcome("x", {}, "bandwidth", "GB/s", "higher", "failed", None, None, None, None, 0, None, "B died", ())
    assert layer_sentences([undecided, failed], "OpenCL", "SYCL") == []


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--runtime", "cuda"), "give opencl, sycl, or opencl,sycl"),
        (("--runtime", "sycl,sycl"), "give opencl, sycl, or opencl,sycl"),
        (("--runtime", "opencl", "-d", "sycl:0"), "name two runtimes"),
        (("--runtime", "sycl", "-d", "0"), "name two runtimes"),
        (("--runtime", "opencl,sycl", "--reference", "--strict"), "leave out --reference, --strict"),
    ],
)
def test_a_contradiction_ends_the_command_in_one_line(args, says):
    done = cli("run", *args)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1


def test_one_runtime_is_that_of_a_plain_run():
    done = cli("run", "--runtime", "opencl", "-b", "launch", "--dry-run")
    assert done.returncode == 0 and done.stdout == cli("run", "-d", "0", "-b", "launch", "--dry-run").stdout


@pytest.mark.slow
def test_both_runtimes_of_one_driver_are_interleaved(tmp_path, monkeypatch):
    info = cpu_of("sycl").info
    monkeypatch.setattr(ab_decision, "MAX_ERROR_PROBABILITY", 1.0)  # four rounds, as in test_live_cli
    with brief_points():
        args = ("-b", "launch", "-a", "groups=1", "--budget", "5m", "--json", "-o", str(tmp_path / "r"))
        done = cli("run", "--runtime", "opencl,sycl", *args)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    (value,) = said["values"]
    assert value["metric"] == "round_trip" and value["rounds"] >= 4 and value["ratio"]["value"] > 0
    assert len(said["layer"]) == 1 and "Through SYCL a launch" in said["layer"][0]
    opencl, sycl = (jsonl.read(tmp_path / f"r-{name}.jsonl").header.device for name in ("opencl", "sycl"))
    assert (opencl.runtime, sycl.runtime, sycl.id) == ("opencl", "sycl", info.id)
    assert opencl.driver == sycl.driver
