"""A ReFrame test of clmembench: the bandwidth of a node's device, in STREAM's triad, against the system's reference.

    reframe -C docs/example/reframe_settings.py -c docs/example/reframe_checks.py --system=node:local -r
    reframe -C docs/example/reframe_settings.py -c docs/example/reframe_checks.py --system=node:slurm -r

The results file is kept in ReFrame's output folder, from where `clmembench fleet import STORE FILES` takes it.
"""

import json
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import deferrable, performance_function, run_before, sanity_function, variable

BAD = {"failed", "wrong", "timeout"}


@rfm.simple_test
class Triad(rfm.RunOnlyRegressionTest):
    """Every point of stream's triad is measured, none of them with a wrong result, and the best one reaches the reference."""

    device = variable(str, value="0")  # as for run -d; -S device=1
    array_bytes = variable(str, value="64MiB")
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "clmembench"
    keep_files = ["run.jsonl", "points.json"]
    postrun_cmds = ["clmembench show run.jsonl --json > points.json"]
    reference = {"*": {"bandwidth": (0, None, None, "GB/s")}}  # such as "node:gpu": {"bandwidth": (3000, -0.1, None, "GB/s")}

    @run_before("run")
    def name_points(self):
        """The arguments of `run`."""
        points = ["-b", "stream", "-a", "op=triad", "-a", f"array_bytes={self.array_bytes}"]
        self.executable_opts = ["run", "-d", self.device, *points, "-o", "run.jsonl"]

    @deferrable
    def points(self):
        """The values of the run, as `show --json` prints them."""
        return json.loads((Path(self.stagedir) / "points.json").read_text(encoding="utf-8"))

    @sanity_function
    def is_right(self):
        """There are points, and none of them is bad."""
        statuses = {point["status"] for point in self.points().evaluate()}
        return sn.all([sn.assert_true(statuses), sn.assert_false(statuses & BAD, f"points are {', '.join(statuses)}")])

    @performance_function("GB/s")
    def bandwidth(self):
        """The best median of the triads."""
        return max(point["median"] for point in self.points().evaluate() if point["median"])
