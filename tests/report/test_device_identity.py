"""One identity of a device: by its UUID or PCI address, then by its name without what a driver update changes in it."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from clmembench.analysis import decision, matching
from clmembench.cli.program import app
from clmembench.model import device_identity as identity
from clmembench.report.device_runs import merged_runs
from clmembench.report.many_runs import fleet
from clmembench.report.many_runs.history import histories
from clmembench.results import jsonl, tuned
from clmembench.specs.sheets import Match, SpecSheet, match_sheet
from tests.builders import STREAM, device, header, run, write_run
from tests.cases import each
from tests.report.test_scorecard import triad

MESA = "AMD Radeon RX 6800 (radeonsi, navi21, LLVM 15.0.7, DRM 3.54, 6.5.0)"
RENAMED = "AMD Radeon RX 6800 (radeonsi, navi21, LLVM 17.0.6, DRM 3.57, 6.8.0-41-generic)"
SERIAL, OTHER_SERIAL = "12ab34cd56ef78901234567890abcdef", "00ab34cd56ef78901234567890abcdef"


@each(
    "names",
    [
        (MESA, RENAMED, "AMD Radeon RX 6800 (navi21, LLVM 14.0.6, DRM 3.49, 6.1.0-13-amd64)",
         "AMD Radeon RX 6800 (radeonsi, navi21, ACO, DRM 3.59, 6.12.9-arch1-1)"),
        ("AMD NAVI21 (DRM 3.40.0, 5.10.0-8-amd64, LLVM 11.0.1)", "AMD NAVI21 (DRM 3.42.0, 5.14.0, LLVM 12.0.0)"),
        ("AMD Radeon (TM) RX 480 Graphics (POLARIS10 / DRM 3.8.0 / 4.9.0, LLVM 3.9.1)",
         "AMD Radeon(TM) RX 480 Graphics (polaris10, LLVM 15.0.7, DRM 3.49, 6.1.0)"),
        ("gfx906+sram-ecc", "gfx906:sramecc+:xnack-", "gfx906:sramecc-:xnack-", "gfx906"),
        ("A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("Intel(R) UHD Graphics 620", "Intel UHD Graphics 620"),
        ("Mesa Intel(R) UHD Graphics 620 (KBL GT2)", "Intel(R) UHD Graphics 620 (KBL GT2)"),
        ("Card X [LLVM 15.0.7]", "Card X [LLVM 17.0.6git-1a2b3c]", "Card X 23.17.26241", "Card X (driver build 20240101)"),
        ("Card X (navi21 LLVM 15.0.7 DRM 3.54 6.5.0-9-generic)", "Card X (navi21 LLVM 18 DRM 4 6.8.0)"),
        ("zink Vulkan 1.3(Adreno 660 (turnip Mesa 23.2.1))", "zink Vulkan 1.4 (Adreno 660 (turnip Mesa 25.0.0-devel))"),
    ],
)  # fmt: skip
def test_a_driver_update_that_renames_a_gpu_leaves_its_model(names):
    assert len({identity.model_key(device(name)) for name in names}) == 1


@pytest.mark.parametrize(
    "names",
    [
        ("pthread-12th Gen Intel(R) Core(TM) i7-12700K", "cpu-alderlake-12th Gen Intel(R) Core(TM) i7-12700K",
         "cpu-goldmont-12th Gen Intel(R) Core(TM) i7-12700K", "12th Gen Intel(R) Core(TM) i7-12700K"),
        ("pthread-AMD EPYC 9R14", "cpu-znver4-AMD EPYC 9R14", "cpu-znver3-AMD EPYC 9R14 Processor"),
        ("cpu-skylake-avx512-Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"),
        ("pthread-cortex-a76", "cpu-cortex-a76"),
    ],
)  # fmt: skip
def test_a_driver_update_that_renames_a_cpu_leaves_its_model(names):
    assert len({identity.model_key(device(name, kind="cpu")) for name in names}) == 1


@each(
    ("one", "other"),
    [
        (MESA, MESA.replace("6800", "6800 XT")), (MESA, MESA.replace("navi21", "navi22")), ("gfx906", "gfx908"),
        ("AMD Radeon Graphics (renoir, LLVM 15.0.6)", "AMD Radeon Graphics (rembrandt, LLVM 15.0.6)"), ("V3D 4.2", "V3D 7.1"),
        ("Intel(R) Graphics [0x56a0]", "Intel(R) Graphics [0x7d55]"), ("Mali-G78 r0p1", "Mali-G710 r0p1"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"), ("NVIDIA", "Intel"),
    ],
)  # fmt: skip
def test_another_model_stays_another(one, other):
    assert not identity.is_same_model(device(one), device(other))


def test_a_uuid_knows_a_renamed_device_and_tells_two_of_a_model_apart():
    card = device("Tesla X", uuid=SERIAL, pci="0000:0f:00.0")
    assert identity.is_same_device(card, replace(card, name="NVIDIA X Series", pci="0000:10:00.0"))
    assert not identity.is_same_device(card, replace(card, uuid=OTHER_SERIAL))
    assert identity.is_same_model(card, replace(card, uuid=OTHER_SERIAL))
    # a part of a GPU, which some drivers give the UUID of the whole
    assert not identity.is_same_model(card, replace(card, name="Tesla X MIG 1g.5gb", compute_units=1))


@pytest.mark.parametrize("uuid", ["", "0" * 32, "f" * 32, "00000000-0000-0000-0000-000000000000"])
def test_a_uuid_that_names_nothing_is_none_and_the_pci_address_decides(uuid):
    card = device(MESA, uuid=uuid, pci="0000:0f:00.0")
    assert identity.driver_uuid(card) == ""
    assert identity.is_same_device(card, replace(card, name=RENAMED, pci="00000000:0F:00.0"))
    assert not identity.is_same_device(card, replace(card, pci="0000:10:00.0"))
    swapped = replace(card, name="AMD Radeon RX 7900 XT (radeonsi, navi31, LLVM 17.0.6, DRM 3.57, 6.8.0)")
    assert not identity.is_same_device(card, swapped) and not identity.is_same_model(card, swapped)


def test_a_uuid_made_of_the_slot_does_not_know_a_swapped_card():
    card = device("AMD Radeon RX 6600 XT", uuid="000000000f0000000000000000000000")
    assert not identity.is_same_model(card, replace(card, name="AMD Radeon RX 6650 XT"))
    assert not identity.is_same_device(card, replace(card, uuid="00000000100000000000000000000000"))


def test_a_uuid_that_we_made_of_the_name_is_no_drivers():
    """Of OpenCL's devices by platform, name and place, as records of every version have it; of SYCL's the id."""
    one = device(MESA, platform="rusticl", selector="1:0")
    made = identity.made_id("rusticl", MESA, "0")
    renamed = replace(one, name=RENAMED, id="b" * 32, uuid=identity.made_id("rusticl", RENAMED, "0"))
    assert identity.driver_uuid(replace(one, id=made, uuid=made)) == "" and identity.is_same_device(one, renamed)
    assert identity.is_same_device(replace(one, id=made, uuid=made), renamed)
    assert identity.driver_uuid(replace(one, id="c" * 32, uuid="c" * 32, runtime="sycl")) == ""
    assert not identity.is_same_device(one, replace(one, id="at another place"))
    twins = [replace(one, instance=n) for n in (1, 2)]
    assert not identity.is_same_device(*twins) and identity.is_same_device(one, twins[1])


def test_a_cpu_is_known_by_its_model_alone():
    old = device("pthread-AMD EPYC", kind="cpu", cpu_id="AuthenticAMD-25-17", uuid="a" * 31 + "b")
    assert identity.is_same_device(old, replace(old, name="cpu-znver4-AMD EPYC", uuid="c" * 31 + "d"))
    assert not identity.is_same_model(old, replace(old, cpu_id="AuthenticAMD-25-1"))
    assert not identity.is_same_model(old, replace(old, kind="gpu"))


@each(
    ("platforms", "same"),
    [
        (("Intel(R) OpenCL HD Graphics", "Intel(R) OpenCL Graphics"), True), (("rusticl", "Clover"), False),
        (("SYCL (Intel(R) Level-Zero)", "SYCL (Intel(R) oneAPI Unified Runtime over Level-Zero V2)"), True),
        (("Mesa 23.1", "Mesa 24.0"), True), (("Intel", "Intel FPGA"), False),
        (("NVIDIA CUDA", "Portable Computing Language"), False),
    ],
)  # fmt: skip
def test_a_platform_is_known_by_its_words(platforms, same):
    one, other = (device("Card", platform=name) for name in platforms)
    assert identity.is_same_platform(one, other) == same
    assert (len(set(identity.device_groups([one, other]))) == 1) == same


# ---- whoever asks --------------------------------------------------------------------------------------------------------


def stored(info, number, gb_s=1000.0):
    head = header(info, {"stream": STREAM}, run_id=f"01J{number:023d}", started=f"2026-01-{number + 1:02d}T08:00:00+00:00")
    return run([triad(gb_s + number, 1 << 30)], head, path=f"r{number}.jsonl")


UPDATES = {
    "uuid": [device("Old name", uuid=SERIAL), device("New name", uuid=SERIAL), device("New name", uuid=SERIAL)],
    "pci": [device(MESA, pci="0000:0f:00.0"), device(RENAMED, pci="0000:0f:00.0"), device(RENAMED)],
    "name": [device(MESA, uuid="1" * 31 + "2"), device(RENAMED), device(RENAMED, uuid="0" * 32)],
    "found late": [device("Old name", uuid=SERIAL), device("New name", uuid=OTHER_SERIAL), device("New name", uuid=SERIAL)],
}


@pytest.mark.parametrize("infos", UPDATES.values(), ids=UPDATES)
def test_an_update_that_renames_splits_no_history_and_no_report(infos):
    runs = [stored(info, n) for n, info in enumerate(infos)]
    (history,) = histories(runs)
    assert [len(q.values) for q in history.quantities] == [3] and len(merged_runs(runs)) == 1
    several = any("devices of one name" in note for note in history.notes)
    assert several == (len({info.uuid for info in infos} & {SERIAL, OTHER_SERIAL}) == 2)
    assert "device Old name -> New name" in history.runs[1].changed or infos[0].name != "Old name"


def test_devices_stand_by_kind_and_memory_bandwidth_and_those_of_a_model_as_they_come(tmp_path):
    from clmembench.report.many_runs.digests import digest

    slow, fast, again = device("Slow"), device("Fast"), device("Slow", driver="9")
    infos = [(device("Host", kind="cpu"), 9000.0), (slow, 100.0), (device("None"), 0.0), (fast, 3000.0), (again, 500.0)]
    runs = [stored(info, n, gb_s) if gb_s else run([], header(info)) for n, (info, gb_s) in enumerate(infos)]
    wanted = [infos[n][0] for n in (3, 1, 4, 2, 0)]
    assert [one.run.header.device for one in merged_runs(runs)] == wanted
    for n, of in enumerate(runs):
        write_run(tmp_path / f"{n}.jsonl", list(of.records), of.header)
    groups = fleet.grouped(map(digest, sorted(tmp_path.iterdir())))
    assert [group.runs[0].device for group in groups] == wanted


def test_an_update_that_renames_splits_no_fleet(tmp_path):
    from clmembench.report.many_runs.digests import digest

    paths = []
    for number, info in enumerate(UPDATES["found late"]):
        paths.append(tmp_path / f"r{number}.jsonl")
        of = stored(info, number)
        write_run(paths[-1], [of.records[0]], of.header)
    (group,) = fleet.grouped(map(digest, paths))
    (values,) = [of for key, of in group.values.items() if key[2] == "bandwidth"]
    assert len(group.runs) == 3 and sorted(n for n, _ in values) == [0, 1, 2]
    assert all(f"{value:.0f}" == f"{1000 + int(group.runs[n].path[-7])}" for n, value in values)


@pytest.mark.parametrize("infos", list(UPDATES.values())[:3], ids=list(UPDATES)[:3])
def test_an_update_that_renames_refuses_no_check_and_no_baseline(infos, tmp_path):
    paths = []
    for number, info in enumerate(infos):
        paths.append(str(tmp_path / f"r{number}.jsonl"))
        of = stored(info, number)
        write_run(tmp_path / f"r{number}.jsonl", [of.records[0]], of.header)
    assert matching.pooled([stored(info, n) for n, info in enumerate(infos)], ()).header.device == infos[0]
    done = CliRunner().invoke(app, ["check", paths[1], "--baseline", paths[0]])
    assert done.exit_code in (0, 6) and "another" not in done.stderr and "is a baseline of" not in done.stderr
    sides = [decision.side_of((), info, {}) for info in infos[:2]]
    assert sides[0].model == sides[1].model or sides[0].device == sides[1].device


def test_a_check_refuses_a_swapped_card_and_notes_another_of_the_model(tmp_path):
    card = device("Card 1", uuid=SERIAL, pci="0000:0f:00.0")
    for number, info in enumerate((card, replace(card, name="Card 2", uuid=OTHER_SERIAL), replace(card, uuid=OTHER_SERIAL))):
        of = stored(info, number)
        write_run(tmp_path / f"r{number}.jsonl", [of.records[0]], of.header)
    base = ["--baseline", str(tmp_path / "r0.jsonl")]
    refused = CliRunner().invoke(app, ["check", str(tmp_path / "r1.jsonl"), *base])
    assert refused.exit_code == 2 and "is a baseline of Card 1 and" in refused.stderr
    assert "another Card 1" in CliRunner().invoke(app, ["check", str(tmp_path / "r2.jsonl"), *base]).stderr


def test_stored_configurations_and_sheets_are_of_the_model():
    families = {tuned.device_family(device(name)) for name in (MESA, RENAMED)}
    assert families == {("AMD Radeon RX 6800 (navi21)", "Test Platform")}
    sheet = SpecSheet("RX 6800", "gpu", Match(device_names=("AMD Radeon RX 6800 (radeonsi, navi21)",)), {})
    assert match_sheet(device(RENAMED), [sheet]) is sheet


def test_a_run_goes_on_after_an_update_of_the_kernel_that_renames_its_device():
    then, now = stored(device(MESA, id="1", pci="0000:0f:00.0"), 1).header, stored(device(RENAMED, id="2"), 1).header
    assert jsonl.mismatch(then, now) is None
    assert jsonl.mismatch(then, replace(now, device=device(RENAMED, id="1", pci="0000:10:00.0")))[0] == "device"


def test_what_a_driver_lists_is_told_apart():
    """Two equal GPUs that a driver gives one UUID are two, each with an id of its own."""
    from clmembench.runtimes.hardware import distinct_devices

    same = [device("Card", id=SERIAL, uuid=SERIAL, selector=f"0:{n}") for n in (0, 1)]
    found = distinct_devices([*same, device("Card 2", id=OTHER_SERIAL, uuid=OTHER_SERIAL, selector="0:2")])
    assert len({info.id for info in found}) == 3 and [info.instance for info in found] == [1, 2, 0]
    assert [identity.driver_uuid(info) for info in found] == ["", "", OTHER_SERIAL]
    addressed = distinct_devices([replace(info, pci=f"0000:0{n + 1}:00.0") for n, info in enumerate(same)])
    assert [info.instance for info in addressed] == [0, 0] and len({info.id for info in addressed}) == 2


class Claims:
    """A device as pyopencl shows it: nothing but these attributes, and extensions."""

    def __init__(self, extensions="", **attributes):
        self.extensions, self.int_ptr = extensions, 0
        self.__dict__ |= attributes


def test_every_drivers_pci_address_is_read(monkeypatch):
    """NVIDIA's, Khronos' (domain, bus, device, function) and AMD's (a type, 17 unused bytes, bus, device, function)."""
    from clmembench.runtimes.opencl import info

    answers = {0x410F: struct.pack("4I", 1, 0x0F, 2, 3), 0x4037: struct.pack("=I17x3b", 1, 0x0F - 0x80, 2, 3)}
    monkeypatch.setattr(info, "_query", lambda _, device, number, size: answers[number])
    assert info._pci(Claims(pci_domain_id_nv=0, pci_bus_id_nv=6, pci_slot_id_nv=0)) == "0000:06:00.0"
    assert info._pci(Claims("cl_khr_icd cl_khr_pci_bus_info")) == "0001:0f:02.3"
    assert info._pci(Claims("cl_amd_device_attribute_query")) == "0000:8f:02.3"
    for silent in (b"", struct.pack("4I", 0, 0, 0, 0), struct.pack("4I", 0, 1 << 20, 0, 0), struct.pack("=I17x3b", 7, 1, 2, 3)):
        answers |= {0x410F: silent, 0x4037: silent}
        assert info._pci(Claims("cl_khr_pci_bus_info cl_amd_device_attribute_query")) == ""
    assert info._pci(Claims()) == ""


def test_two_equal_gpus_of_one_uuid_are_both_listed():
    from clmembench.runtimes.hardware import listed

    same = [device("Card", id=SERIAL, uuid=SERIAL, selector=f"0:{n}") for n in (0, 1)]
    again = [replace(info, selector=f"1:{n}") for n, info in enumerate(same)]  # the driver is registered twice
    found = listed([(info, n) for n, info in enumerate([*same, *again])])
    assert [handle for _, handle in found] == [0, 1] and len({info.id for info, _ in found}) == 2
    sycl = [device("Arc", id=str(n), uuid="0" * 32, runtime="sycl", selector=f"sycl:level_zero:gpu:{n}") for n in (0, 1)]
    assert [info.instance for info, _ in listed([(info, 0) for info in sycl])] == [1, 2]
