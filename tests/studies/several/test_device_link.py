"""device_link: on several devices of PoCL in a process of their own, and its tables of runs with known bandwidths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from clmembench.benchmarks import discovered
from clmembench.model import Copy, Migrate
from clmembench.plan import sweep
from clmembench.plan.selection import OWN_SUITES, Selection, selected_benchmarks, suites
from clmembench.plan.sweep import benchmark_card
from clmembench.report import frame
from clmembench.runtimes.fake import FAKE_DEVICE_INFO, FakeDevice
from clmembench.studies.several import curves
from clmembench.studies.several.matrices import device_sections, driver_path
from tests.builders import device, header, record, run, series, walked

MIB = 1 << 20
LINK = discovered()["device_link"]
TWO, FOUR = (replace(FAKE_DEVICE_INFO, peers=n, features=FAKE_DEVICE_INFO.features | {"peers"}) for n in (1, 3))

# each point is checked, and checked again without its first command, which the check must find; a migration of memory that
# all devices share moves nothing, so nothing can be found there
ON_POCL = """
import dataclasses, json
from clmembench.benchmarks import discovered
from clmembench.measure import sampling
from clmembench.plan.budget import Budget
from clmembench.runtimes import runtime
info = runtime("opencl").devices()[0]
device, tiny, found = runtime("opencl").open(info), Budget(0.0, 0.01, 1.0, 1e4), {"peers": info.peers}
for by, traffic, nbytes in (("copy", "one", 4), ("copy", "all", 65540), ("migrate", "both", 65540), ("pinned", "one", 4),
                            ("pinned", "all", 5 << 20)):
    work = discovered()["device_link"].prepare(device, by=by, traffic=traffic, sender=0, receiver=1, array_bytes=nbytes)
    short = dataclasses.replace(work, commands=tuple(c for c in work.commands[1:] if getattr(c, "after", None) is None))
    results = [sampling.sample_point(device, one, tiny, 50) for one in (work, short)]
    found[f"{by} {traffic} {nbytes}"] = [result.wrong for result in results]
alone = runtime("opencl").open(dataclasses.replace(info, peers=0))
try:
    alone.time((dataclasses.replace(work.commands[0], after=0),), 1, "host")
except ValueError as error:
    found["refused"] = str(error)
print(json.dumps(found))
"""


def test_every_way_is_verified_on_three_devices_and_a_missing_command_is_found():
    environment = {**os.environ, "POCL_DEVICES": "pthread pthread pthread"}
    done = subprocess.run([sys.executable, "-c", ON_POCL], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.pop("peers") == 2 and "earlier" in found.pop("refused")
    assert {key: whole for key, (whole, _) in found.items()} == dict.fromkeys(found, "")
    assert all("wrong" in short for key, (_, short) in found.items() if "migrate" not in key), found


def test_pieces_through_pinned_memory_wait_for_their_place_and_for_their_bytes():
    routes = {"pinned": 2 * 24, "copy": 1, "migrate": 1}
    for by, count in routes.items():
        work = LINK.prepare(FakeDevice(TWO), by=by, traffic="one", sender=0, receiver=1, array_bytes=96 * MIB)
        moved = work.commands[:-1]
        assert len(moved) == count and all(isinstance(c, Migrate if by == "migrate" else Copy) for c in moved)
    work = LINK.prepare(FakeDevice(TWO), by="pinned", traffic="both", sender=0, receiver=1, array_bytes=96 * MIB)
    copies = work.commands[:-2]
    assert work.nbytes == 2 * 96 * MIB and len(copies) == 4 * 24
    for number, copy in enumerate(copies):
        is_write, source = number // 2 % 2 == 1, copies[copy.after] if copy.after is not None else None
        assert copy.queue == ((3, 1) if is_write else (0, 2))[number % 2]
        if is_write:  # the same bytes, read before
            assert source is not None and (source.src_offset, source.nbytes) == (copy.dst_offset, copy.nbytes)
            assert source.dst is copy.src
        elif number >= 16:  # four pieces of two routes in flight: the place was written to the target from
            assert source is not None and source.dst_offset == copy.src_offset - 4 * copy.nbytes
        else:
            assert source is None
    assert sum(c.nbytes for c in copies) == 2 * work.nbytes


def test_all_pairs_are_measured_at_one_size_and_one_pair_at_every_size():
    asked = [dict(p.params) for p in walked(sweep.explore(LINK, FOUR, Selection(suite="several")))]
    one_way = [p for p in asked if p["traffic"] == "one"]
    assert {(p["sender"], p["receiver"]) for p in one_way} == {(a, b) for a in range(4) for b in range(4) if a != b}
    sizes = {p["array_bytes"] for p in one_way if (p["sender"], p["receiver"]) == (0, 1) and p["by"] == "pinned"}
    assert min(sizes) == 4 and max(sizes) == 1 << 30
    assert {p["array_bytes"] for p in one_way if p["sender"] > 1} == {64 * MIB}
    assert sum(p["traffic"] == "all" for p in asked) == 3 and sum(p["traffic"] == "both" for p in asked) == 3 * 6
    assert {p["traffic"] for p in walked_params(TWO)} == {"one", "both"}  # all pairs of two devices are both directions


def walked_params(info):
    return [p.params for p in walked(sweep.explore(LINK, info, Selection(suite="several")))]


def test_its_suite_is_not_in_all_and_is_run_by_name():
    assert "several" in OWN_SUITES and "device_link" not in suites()["all"]
    assert selected_benchmarks(Selection(globs=("device_link",))) == [LINK]


def link_run(**gb_s):
    """A run on two devices whose bandwidth of each way is known, at 1 and 64 MiB and in both directions."""
    records = []
    for by, rate in gb_s.items():
        for traffic, pair, nbytes in (("one", (0, 1), MIB), ("one", (0, 1), 64 * MIB), ("one", (1, 0), 64 * MIB),
                                      ("both", (0, 1), 64 * MIB)):  # fmt: skip
            params = {"by": by, "traffic": traffic, "sender": pair[0], "receiver": pair[1], "array_bytes": nbytes}
            times = [round(nbytes / rate) + n % 3 for n in range(16)]
            records.append(record("device_link", params, series(times, nbytes=nbytes, ops=1, clock="host")))
    cards = {"device_link": benchmark_card(LINK)}
    found = run(records, header(device(peers=1, shares_host_memory=gb_s.get("pinned") == 9.0), cards))
    return found, frame.rows(found, None)


@pytest.mark.parametrize(
    ("copy", "pinned", "wanted"),
    [
        (374.0, 50.0, "peer to peer"),
        (0.9, 50.0, "staged in the host"),
        (48.0, 50.0, "which both paths may reach"),
        (50.0, 9.0, "no link is between them"),
    ],
)
def test_the_drivers_path_is_told_from_bandwidth_or_is_undetermined(copy, pinned, wanted):
    found = driver_path(*link_run(copy=copy, pinned=pinned), "copy")
    assert wanted in (found.value or found.reason)
    assert (found.status == "ok") == (found.value == wanted)


def test_tables_have_a_matrix_the_sizes_and_what_runs_at_once():
    found, rows = link_run(copy=0.9, pinned=50.0)
    tables = device_sections(found, rows)
    assert [table.title.split(".")[0] for table in tables] == [
        "device_link: 64 MiB from device to device by copy, in GB/s",
        "device_link: 64 MiB from device to device by pinned, in GB/s",
        "From device 0 to device 1, until a kernel there has read the last word",
        "Several copies at once, all of their bytes",
    ]
    assert [[str(cell) for cell in row] for row in tables[1].rows] == [
        ["0", "–", "50.0 (50.0 to 50.0)"],
        ["1", "50.0 (50.0 to 50.0)", "–"],
    ]
    assert "copy: staged in the host" in tables[-1].notes
    assert "<svg" in curves.device_link(benchmark_card(LINK), frame.parts([found]))
