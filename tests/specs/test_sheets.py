import re
from collections import Counter
from dataclasses import replace

import pytest

from clmembench.resources import sheet_paths
from clmembench.specs.sheets import (
    Figure,
    Match,
    Peak,
    SpecError,
    SpecSheet,
    all_sheets,
    load,
    match_sheet,
    peak,
    published_sheets,
)
from tests.builders import device
from tests.cases import each

SHEETS = {path.name: load(path) for path in sheet_paths()}

CPU = device("Some CPU", kind="cpu", cpu_id="Maker-6-1", compute_units=8)
SHEET = SpecSheet(
    "Maker CPU",
    "cpu",
    Match(cpu_ids=("Maker-6-1",)),
    {
        "device_gb_s": Figure(100.0, "GB/s", "the data sheet"),
        "socket_gb_s": Figure(300.0, "GB/s", "the product brief", "socket"),
        "flops": Figure(16.0, "FLOP/cycle", "the manual", "core"),
        "l1_bytes": Figure(32768, "B", "the manual", "core"),
    },
)
GOOD = 'name = "A"\nkind = "gpu"\n[match]\ndevice_names = ["A"]\n[figures.f]\nvalue = 1.0\nunit = "GB/s"\nsource = "x"\n'


@each("name", SHEETS)
def test_every_figure_is_a_positive_number_with_a_unit_and_a_source(name):
    sheet = SHEETS[name]
    assert sheet.name.strip() and sheet.figures
    for figure in sheet.figures.values():
        assert 0 < figure.value < float("inf")
        assert figure.unit.strip() and figure.source.strip()


@each("name", SHEETS)
def test_the_unit_of_a_figure_is_that_of_its_name(name):
    ends = {"_gb_s": {"GB/s"}, "_gflop_s": {"GFLOP/s", "FLOP/cycle"}, "_gop_s": {"Gop/s", "op/cycle"}, "_bytes": {"B"}}
    for figure_name, figure in SHEETS[name].figures.items():
        (units,) = [units for end, units in ends.items() if figure_name.endswith(end)]
        assert figure.unit in units
        assert figure.unit.endswith("/cycle") <= (figure.scope == "core")


def test_no_two_sheets_match_the_same_hardware():
    shown = [(s.kind, x) for s in SHEETS.values() for x in (*s.match.device_names, *s.match.cpu_ids)]
    assert [x for x, count in Counter(shown).items() if count > 1] == []
    assert len({s.name for s in SHEETS.values()}) == len(SHEETS)


@each("name", SHEETS)
def test_every_sheet_is_found_by_each_thing_it_matches(name):
    sheet = SHEETS[name]
    by_name = [device(n, kind=sheet.kind) for n in sheet.match.device_names]
    by_id = [device("Any", kind=sheet.kind, cpu_id=i) for i in sheet.match.cpu_ids]
    assert by_name + by_id or sheet.published  # one name for many models matches nothing, and is there to compare with
    assert [match_sheet(info) for info in by_name + by_id] == [sheet] * len(by_name + by_id)


@pytest.mark.parametrize(
    "info", [device("Unheard of"), device(""), device("NVIDIA H100"), device("nvidia h200"), device("NVIDIA H200", kind="cpu")]
)
def test_no_match_is_none(info):
    assert match_sheet(info) is None
    assert match_sheet(info, []) is None


def test_a_device_without_a_cpu_identity_matches_no_sheet_by_it():
    assert match_sheet(replace(CPU, cpu_id=""), [replace(SHEET, match=Match(cpu_ids=("",)))]) is None


def test_two_matches_are_an_error_that_names_both():
    other = replace(SHEET, name="Other CPU", match=Match(device_names=("Some CPU",)))
    with pytest.raises(SpecError, match="Maker CPU and Other CPU") as caught:
        match_sheet(CPU, [SHEET, other])
    assert "Some CPU" in str(caught.value) and "[match]" in str(caught.value)


def test_a_device_figure_is_the_peak_as_it_stands():
    for sockets in (None, 1, 2):
        assert peak(SHEET, "device_gb_s", CPU, None, sockets) == Peak(100.0, "GB/s", "the data sheet")


def test_a_core_figure_is_times_cores_and_measured_clock_and_says_so():
    found = peak(SHEET, "flops", CPU, 2.5, sockets=None)
    assert (found.value, found.unit, found.source) == (16 * 8 * 2.5, "GFLOP/s", "the manual")
    assert found.derived == "16 FLOP/cycle x 8 compute units, each taken for a core x 2.50 GHz measured"
    # eight hardware threads of four cores
    found = peak(SHEET, "flops", CPU, 2.5, sockets=None, cores=4)
    assert (found.value, found.derived) == (16 * 4 * 2.5, "16 FLOP/cycle x 4 cores x 2.50 GHz measured")
    assert peak(SHEET, "flops", CPU, 2.5, sockets=None, cores=64).value == 16 * 8 * 2.5  # of a device with a part of them


def test_a_core_figure_without_a_measured_clock_is_no_peak():
    assert peak(SHEET, "flops", CPU, None, sockets=1) is None


def test_a_compute_units_own_bandwidth_is_times_compute_units_and_needs_no_clock():
    own = replace(SHEET, figures={"local": Figure(253.44, "GB/s", "the manual", "core")})
    found = peak(own, "local", replace(CPU, compute_units=132), None, sockets=None)
    assert (found.value, found.unit) == (pytest.approx(33454.08), "GB/s")
    assert found.derived == "253.44 GB/s x 132 compute units"


def test_a_size_for_each_core_does_not_become_a_rate():
    found = peak(SHEET, "l1_bytes", CPU, 2.5, sockets=1)
    assert found is None or found.unit == "B"


def test_a_socket_figure_holds_for_whole_sockets_and_for_no_share_of_one():
    assert peak(SHEET, "socket_gb_s", CPU, 2.5, sockets=None) is None
    assert peak(SHEET, "socket_gb_s", CPU, 2.5, sockets=1) == Peak(300.0, "GB/s", "the product brief")
    two = peak(SHEET, "socket_gb_s", CPU, 2.5, sockets=2)
    assert two == Peak(600.0, "GB/s", "the product brief", "300 GB/s x 2 sockets")


@pytest.mark.parametrize(("sheet", "name"), [(None, "flops"), (SHEET, None), (SHEET, "unknown"), (None, None)])
def test_what_is_not_known_is_no_peak(sheet, name):
    assert peak(sheet, name, CPU, 2.5, sockets=1) is None


@each(
    "damage",
    [
        GOOD.replace('"A"\nkind', '"A\nkind'),  # no TOML
        GOOD.replace('kind = "gpu"\n', ""),
        GOOD.replace('"gpu"', '"toaster"'),
        GOOD.replace("value = 1.0", 'value = "fast"'),
        GOOD.replace('source = "x"\n', ""),
        GOOD.replace("[match]", "[mutch]"),
        GOOD + 'scope = "galaxy"\n',
        "",
    ],
)
def test_a_damaged_sheet_is_reported_with_its_file(tmp_path, damage):
    path = tmp_path / "my-device.toml"
    path.write_text(damage)
    with pytest.raises(SpecError, match=r"my-device\.toml: no spec sheet: .+") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_sheet_that_is_no_text_or_no_file_is_reported(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("binary.toml", "missing.toml"):
        with pytest.raises(SpecError, match=name):
            load(tmp_path / name)


def test_a_good_sheet_loads(tmp_path):
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert load(path) == SpecSheet("A", "gpu", Match(("A",)), {"f": Figure(1.0, "GB/s", "x")})


@each("name", [n for n, sheet in SHEETS.items() if sheet.published])
def test_every_published_result_says_where_it_stands(name):
    for result in SHEETS[name].published:
        assert 0 <= result.value < float("inf")
        assert result.benchmark.strip() and result.metric.strip() and result.unit.strip()
        assert re.search(r"(19|20)\d\d, (table|figure|section)", result.source), result.source
        if result.read_from == "table":
            assert re.search("table|figure", result.source)


def test_published_results_add_up_where_a_paper_says_so():
    # Mei et al. 2014 timed with an overhead that Mei and Chu 2015 subtract: 20 cycles on Fermi, 32 on Kepler
    for stem, overhead in (("nvidia-gtx-560-ti", 20), ("nvidia-gtx-780", 32)):
        found: dict[str, dict[tuple[tuple[str, object], ...], float]] = {"2014": {}, "2015": {}}
        for result in SHEETS[f"{stem}.toml"].published:
            if (result.metric, result.unit) == ("latency", "cycles") and "pattern" in result.params:
                year = "2014" if "2014" in result.source else "2015"
                assert (result.params.get("timing") == "included") == (year == "2014")
                params = {name: value for name, value in result.params.items() if name != "timing"}
                found[year][tuple(sorted(params.items()))] = result.value
        both = found["2014"].keys() & found["2015"].keys()
        assert len(both) >= 4
        assert {found["2014"][key] - found["2015"][key] for key in both} == {overhead}


def test_sheets_beside_a_report_are_named_by_their_files():
    assert [sheet.name for sheet in published_sheets(["nvidia-gtx-980"])] == ["NVIDIA GeForce GTX 980"]
    assert len(published_sheets(["all"])) == sum(bool(sheet.published) for sheet in SHEETS.values())
    assert published_sheets([]) == []
    with pytest.raises(SpecError, match=r"choose from all, .*nvidia-k80"):
        published_sheets(["h100-sxm"])


@each(
    ("damage", "says"),
    [
        (GOOD.replace("1.0", '"1.0"'), "valid number"),  # a text is no number, and a number no text
        (GOOD.replace('unit = "GB/s"', "unit = 5"), "valid string"),
        (GOOD.replace("1.0", "true"), "valid number"),
        (GOOD.replace("1.0", "nan"), "JSON"),
        (GOOD.replace("1.0", "inf"), "JSON"),
        (GOOD.replace("1.0", "0.0"), "f: 0.0 is not a positive number"),
        (GOOD.replace("1.0", "-4"), "not a positive number"),
        (GOOD.replace('"A"\nkind', "1979-05-27\nkind"), "not JSON serializable"),
        (GOOD + "x = " + "[" * 5000 + "]" * 5000 + "\n", "."),
        (GOOD + 'value = 2.0\n', "overwrite"),  # one key twice
        (GOOD + "".join(f'[figures.f{n}]\nvalue = 1.0\nunit = "B"\nsource = "x"\n' for n in range(1001)), "over 1000 figures"),
        (GOOD + f"# {'x' * (1 << 20)}\n", "over 1048576 bytes"),
    ],
)  # fmt: skip
def test_a_sheet_is_read_strictly_and_within_limits(tmp_path, damage, says):
    path = tmp_path / "mine.toml"
    path.write_text(damage)
    with pytest.raises(SpecError, match=r"mine\.toml: no spec sheet: .*" + says) as caught:
        load(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


@each("name", ["../specs", "/etc/passwd", "../platforms/nvidia-gtx-980", "nvidia-gtx-980.toml", "*", "", "."])
def test_a_name_beside_a_report_is_no_path(name):
    with pytest.raises(SpecError, match="choose from all"):
        published_sheets([name])


@each("sheet", all_sheets())
def test_a_sheet_that_states_double_precision_states_single_precision_too(sheet):
    double, single = (sheet.figures.get(f"{kind}_vector_gflop_s") for kind in ("fp64", "fp32"))
    assert (double is None) == (single is None), "a report says 'not known' of what the same source states"
    if double is not None and single is not None:
        assert (double.unit, double.scope) == (single.unit, single.scope)
        assert 1.9 <= single.value / double.value <= 3.1
