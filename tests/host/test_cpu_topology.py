"""Where threads go: mappings worked out by hand, what holds for any topology, and sysfs as it is and as it should not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clmembench.host.cpu_topology import PLACEMENTS, HardwareThread, core_cache_bytes, cpus, placements, read
from tests.cases import each


def described(*sockets: tuple[int, ...]) -> tuple[HardwareThread, ...]:
    """Sockets given as the hardware threads of each of their cores; CPUs numbered in order of place."""
    places = [
        (s, c, t) for s, cores in enumerate(sockets) for c, threads in enumerate(cores) for t in range(threads)
    ]  # fmt: skip
    return tuple(HardwareThread(cpu, *place) for cpu, place in enumerate(places))


# two processors of four cores: CPUs 0-3 and 4-7
FIGURE_1 = described((1, 1, 1, 1), (1, 1, 1, 1))
# two sockets of 28 cores of 2 threads, numbered as Linux does: first threads are 0-27 and 28-55, their second ones 56 more
XEON = tuple(HardwareThread(28 * s + c + 56 * t, s, c, t) for t in range(2) for s in range(2) for c in range(28))
# 60 cores of 4 threads in one socket: core c has CPUs 4c to 4c + 3
PHI = described((4,) * 60)
TWO_CPUS = described((1, 1))
# a socket of 1 core (CPUs 0, 1) and one of 3 cores (CPUs 2 and 3, 4 and 5, 6 and 7)
UNEQUAL = described((2,), (2, 2, 2))


@pytest.mark.parametrize(
    ("placement", "wanted"),
    [
        ("compact", (0, 1, 2, 3, 4, 5)),  # threads 0,1,2,3 | 4,5
        ("scatter", (0, 4, 1, 5, 2, 6)),  # threads 0,2,4 on CPUs 0,1,2 | threads 1,3,5 on CPUs 4,5,6
        ("balanced", (0, 1, 2, 4, 5, 6)),  # threads 0,1,2 on CPUs 0,1,2 | threads 3,4,5 on CPUs 4,5,6
    ],
)
def test_figure_1_of_razzaq_et_al(placement, wanted):
    assert cpus(FIGURE_1, 6, placement) == wanted


def test_compact_on_two_xeons():
    """Core c of socket 0 is CPUs c and 56 + c; core c of socket 1 is CPUs 28 + c and 84 + c. A core's two, then the next core:
    28 threads fill cores 0-13 of socket 0; the 29th opens core 14; 56 fill socket 0; the 57th opens core 0 of socket 1, CPU 28;
    112 fill both.
    """
    assert cpus(XEON, 1, "compact") == (0,)
    assert cpus(XEON, 2, "compact") == (0, 56)
    first_14_cores = (0, 56, 1, 57, 2, 58, 3, 59, 4, 60, 5, 61, 6, 62, 7, 63, 8, 64, 9, 65, 10, 66, 11, 67, 12, 68, 13, 69)
    assert cpus(XEON, 28, "compact") == first_14_cores
    assert cpus(XEON, 29, "compact") == (*first_14_cores, 14)
    last_14_cores = (
        14,
        70,
        15,
        71,
        16,
        72,
        17,
        73,
        18,
        74,
        19,
        75,
        20,
        76,
        21,
        77,
        22,
        78,
        23,
        79,
        24,
        80,
        25,
        81,
        26,
        82,
        27,
        83,
    )
    assert cpus(XEON, 56, "compact") == first_14_cores + last_14_cores
    assert cpus(XEON, 57, "compact") == (*first_14_cores, *last_14_cores, 28)
    everything = cpus(XEON, 112, "compact")
    assert everything[:56] == first_14_cores + last_14_cores
    assert everything[56:62] == (28, 84, 29, 85, 30, 86)
    assert everything[-4:] == (54, 110, 55, 111)


def test_scatter_on_two_xeons():
    """Even threads go to socket 0, odd ones to socket 1, each to the next core: 0, 28, 1, 29 ... The 28th is thread 27, on core
    13 of socket 1 = CPU 41; the 29th is on core 14 of socket 0; the 56th on core 27 of socket 1 = CPU 55. Now every core has a
    thread, so the 57th begins with the second ones, CPU 56, and the 58th has CPU 84; the 112th is the last of socket 1, 111.
    """
    assert cpus(XEON, 1, "scatter") == (0,)
    assert cpus(XEON, 2, "scatter") == (0, 28)
    first = (0, 28, 1, 29, 2, 30, 3, 31, 4, 32, 5, 33, 6, 34, 7, 35, 8, 36, 9, 37, 10, 38, 11, 39, 12, 40, 13, 41)
    assert cpus(XEON, 28, "scatter") == first
    assert cpus(XEON, 29, "scatter") == (*first, 14)
    second = (14, 42, 15, 43, 16, 44, 17, 45, 18, 46, 19, 47, 20, 48, 21, 49, 22, 50, 23, 51, 24, 52, 25, 53, 26, 54, 27, 55)
    assert cpus(XEON, 56, "scatter") == first + second
    assert cpus(XEON, 57, "scatter") == (*first, *second, 56)
    everything = cpus(XEON, 112, "scatter")
    assert everything[:56] == first + second
    assert everything[56:62] == (56, 84, 57, 85, 58, 86)
    assert everything[-4:] == (82, 110, 83, 111)


def test_balanced_on_two_xeons():
    """Half of the threads to each socket, the first half to socket 0: 14 and 14 of 28, 15 and 14 of 29, 28 and 28 of 56, on a
    core each. Of 57, 29 go to socket 0: one core, the first, takes two neighbours, CPUs 0 and 56, and the others one. 112 fill
    every core, and neighbours share one: as compact.
    """
    assert cpus(XEON, 1, "balanced") == (0,)
    assert cpus(XEON, 2, "balanced") == (0, 28)
    socket_1 = (28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41)
    assert cpus(XEON, 28, "balanced") == (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, *socket_1)
    assert cpus(XEON, 29, "balanced") == (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, *socket_1)
    assert cpus(XEON, 56, "balanced") == tuple(range(56))
    assert cpus(XEON, 57, "balanced") == (0, 56, *range(1, 56))
    assert cpus(XEON, 112, "balanced") == cpus(XEON, 112, "compact")


def test_xeon_phi_with_a_thread_a_core_and_one_more():
    """60 threads: compact fills cores 0-14; the others use CPU 4c of each core c. The 61st opens core 15 = CPU 60 in compact;
    in scatter it is the second thread of core 0 = CPU 1, and balanced puts it beside the first.
    """
    assert cpus(PHI, 60, "compact") == tuple(range(60))
    assert cpus(PHI, 60, "scatter") == cpus(PHI, 60, "balanced") == tuple(range(0, 240, 4))
    assert cpus(PHI, 61, "compact") == tuple(range(61))
    assert cpus(PHI, 61, "scatter") == (*range(0, 240, 4), 1)
    assert cpus(PHI, 61, "balanced") == (0, 1, *range(4, 240, 4))


def test_xeon_phi_with_two_threads_a_core_and_all():
    """120 threads: compact fills cores 0-29; scatter takes the first threads of all cores, then the second ones; balanced puts
    threads 0 and 1 on core 0 (CPUs 0, 1), 2 and 3 on core 1 (CPUs 4, 5) ... 118 and 119 on core 59 (CPUs 236, 237).
    """
    assert cpus(PHI, 120, "compact") == tuple(range(120))
    assert cpus(PHI, 120, "scatter") == (*range(0, 240, 4), *range(1, 240, 4))
    two_a_core = cpus(PHI, 120, "balanced")
    assert two_a_core[:8] == (0, 1, 4, 5, 8, 9, 12, 13)
    assert two_a_core[-4:] == (232, 233, 236, 237)
    assert cpus(PHI, 240, "compact") == cpus(PHI, 240, "balanced") == tuple(range(240))
    assert cpus(PHI, 240, "scatter") == (*range(0, 240, 4), *range(1, 240, 4), *range(2, 240, 4), *range(3, 240, 4))


@each(
    ("count", "compact", "scatter", "balanced"),
    [
        (2, (0, 1), (0, 2), (0, 2)),
        # socket 0 has no second core, so the third and fourth go to socket 1's
        (3, (0, 1, 2), (0, 2, 4), (0, 2, 4)),
        (4, (0, 1, 2, 3), (0, 2, 4, 6), (0, 2, 4, 6)),
        # every core has one: second threads, first on the socket that has fewer
        (5, (0, 1, 2, 3, 4), (0, 2, 4, 6, 1), (0, 1, 2, 4, 6)),
        # socket 0 is full with two
        (6, (0, 1, 2, 3, 4, 5), (0, 2, 4, 6, 1, 3), (0, 1, 2, 3, 4, 6)),
        (8, (0, 1, 2, 3, 4, 5, 6, 7), (0, 2, 4, 6, 1, 3, 5, 7), (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_unequal_sockets_are_not_overfilled(count, compact, scatter, balanced):
    assert tuple(cpus(UNEQUAL, count, p) for p in PLACEMENTS) == (compact, scatter, balanced)


def test_a_socket_that_got_one_more_core_waits_with_second_threads():
    # cores: CPUs 0,1 | 2,3 of socket 0 and 4,5 of socket 1; after 0, 4, 2 the second threads begin with socket 1's: 2 and 2
    assert cpus(described((2, 2), (2,)), 4, "scatter") == (0, 4, 2, 5)
    assert cpus(described((2, 2), (2,)), 4, "balanced") == (0, 2, 4, 5)


def test_a_core_with_fewer_threads_takes_no_more_than_it_has():
    # as on hosts with cores of two kinds: CPUs 0,1 share a core, 2 and 3 have their own
    mixed = described((2, 1, 1))
    assert cpus(mixed, 4, "scatter") == (0, 2, 3, 1)
    assert cpus(mixed, 4, "balanced") == (0, 1, 2, 3)


def test_the_order_in_which_a_topology_is_given_does_not_matter():
    for placement in PLACEMENTS:
        assert cpus(tuple(reversed(XEON)), 57, placement) == cpus(XEON, 57, placement)


@each(
    ("topology", "count", "wanted"),
    [
        (TWO_CPUS, 1, ("compact",)),
        (TWO_CPUS, 2, ("compact",)),
        (described((2,)), 2, ("compact",)),
        (FIGURE_1, 1, ("compact",)),
        (FIGURE_1, 2, ("compact", "scatter")),  # (0, 1), and (0, 4) twice
        (FIGURE_1, 6, ("compact", "scatter", "balanced")),
        (FIGURE_1, 8, ("compact", "scatter")),  # all places: balanced is compact
        (PHI, 60, ("compact", "scatter")),
        (PHI, 120, ("compact", "scatter", "balanced")),
    ],
)
def test_placements_that_do_not_differ_are_one(topology, count, wanted):
    assert placements(topology, count) == wanted


@pytest.mark.parametrize("count", [0, -1, 9])
def test_a_count_out_of_range_names_the_limit(count):
    with pytest.raises(ValueError, match=f"{count} threads: this host has places for 1 to 8"):
        cpus(FIGURE_1, count, "compact")
    with pytest.raises(ValueError, match="1 to 8"):
        placements(FIGURE_1, count)


def test_an_unknown_placement_names_those_there_are():
    with pytest.raises(ValueError, match="'spread' is no placement: choose from compact, scatter, balanced"):
        cpus(FIGURE_1, 2, "spread")


SHAPES = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple), min_size=1, max_size=4)


@given(st.data(), SHAPES)
def test_in_any_topology_places_are_distinct_and_spread_placements_use_all_they_can(data, shape):
    topology = described(*shape)
    count = data.draw(st.integers(1, len(topology)))
    where = {t.cpu: t for t in topology}
    for placement in PLACEMENTS:
        chosen = cpus(topology, count, placement)
        assert len(chosen) == len(set(chosen)) == count
        assert set(chosen) <= set(where)
        if placement != "compact":
            assert len({where[c].socket for c in chosen}) == min(count, len(shape))
            assert len({(where[c].socket, where[c].core) for c in chosen}) == min(count, sum(map(len, shape)))
        if placement != "scatter":  # neighbours together: places only grow
            assert list(chosen) == sorted(chosen)
    assert placements(topology, count)[0] == "compact"


@given(st.data(), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4))
def test_equal_sockets_and_cores_get_shares_that_differ_by_at_most_one(data, sockets, cores, threads):
    topology = described(*[(threads,) * cores] * sockets)
    count = data.draw(st.integers(1, len(topology)))
    for placement in ("scatter", "balanced"):
        chosen = cpus(topology, count, placement)
        of_socket = [sum(c // (cores * threads) == s for c in chosen) for s in range(sockets)]
        of_core = [sum(c // threads == core for c in chosen) for core in range(sockets * cores)]
        assert max(of_socket) - min(of_socket) <= 1
        assert max(of_core) - min(of_core) <= 1


# ---- sysfs ----------------------------------------------------------------------------------------------------------


def sysfs(root: Path, online: str, *said: tuple[int, object, object, str]) -> Path:
    """A tree as the kernel has it: (cpu, package, core_id, siblings) of each online CPU."""
    (root / "online").write_text(online + "\n")
    for cpu, package, core, siblings in said:
        folder = root / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        for name, text in (("physical_package_id", package), ("core_id", core), ("thread_siblings_list", siblings)):
            (folder / name).write_text(f"{text}\n")
    return root


def four(root: Path) -> Path:
    """Two sockets of two cores, core_id with a gap and the same in both."""
    return sysfs(root, "0-3", (0, 0, 0, "0"), (1, 0, 8, "1"), (2, 1, 0, "2"), (3, 1, 8, "3"))


APART = (HardwareThread(0, 0, 0, 0), HardwareThread(1, 0, 1, 0), HardwareThread(2, 0, 2, 0), HardwareThread(3, 0, 3, 0))


def test_core_ids_with_gaps_that_repeat_in_each_socket(tmp_path):
    wanted = (HardwareThread(0, 0, 0, 0), HardwareThread(1, 0, 1, 0), HardwareThread(2, 1, 0, 0), HardwareThread(3, 1, 1, 0))
    assert read(four(tmp_path), range(4)) == wanted


def test_sockets_and_second_threads_numbered_as_linux_does(tmp_path):
    # a core a socket of two threads; package numbers with a gap; siblings as a list and as a range of other numbers
    root = sysfs(tmp_path, "0-3", (0, 3, 0, "0,2"), (1, 7, 0, "1,3"), (2, 3, 0, "0,2"), (3, 7, 0, "1,3"))
    assert read(root, range(4)) == (
        HardwareThread(0, 0, 0, 0),
        HardwareThread(2, 0, 0, 1),
        HardwareThread(1, 1, 0, 0),
        HardwareThread(3, 1, 0, 1),
    )


def test_the_node_of_a_cpu_is_that_of_its_link_and_0_without_one(tmp_path):
    root = four(tmp_path)
    for cpu, node in ((0, 2), (2, 5), (3, 5)):
        (root / f"cpu{cpu}" / f"node{node}").mkdir()
    assert [t.node for t in read(root, range(4))] == [2, 0, 5, 5]


def test_dies_whose_core_ids_repeat_in_one_socket_are_cores_of_their_own(tmp_path):
    root = sysfs(tmp_path, "0-3", (0, 0, 0, "0-1"), (1, 0, 0, "0-1"), (2, 0, 0, "2-3"), (3, 0, 0, "2-3"))
    assert [(t.cpu, t.core, t.thread) for t in read(root, range(4))] == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]


def test_offline_cpus_are_left_out(tmp_path):
    # an offline CPU has no topology, and is no sibling of anyone
    root = sysfs(tmp_path, "0,2", (0, 0, 0, "0"), (2, 0, 1, "2"))
    assert read(root, range(4)) == (HardwareThread(0, 0, 0, 0), HardwareThread(2, 0, 1, 0))


def test_cpus_that_may_not_be_used_are_left_out_and_places_numbered_without_them(tmp_path):
    root = sysfs(tmp_path, "0-3", (0, 0, 0, "0,2"), (1, 1, 0, "1,3"), (2, 0, 0, "0,2"), (3, 1, 0, "1,3"))
    assert read(root, {3}) == (HardwareThread(3, 0, 0, 0),)
    assert read(root, set()) == ()


def test_nothing_said_is_a_core_for_each_cpu(tmp_path):
    assert read(tmp_path / "absent", {0, 1, 2, 3}) == APART
    (tmp_path / "online").write_text("0-2\n")
    assert read(tmp_path, {0, 1, 2, 3}) == APART[:3]


@each("name", ["physical_package_id", "core_id", "thread_siblings_list"])
@each("text", [None, b"", b"x", b"\xff\xfe", b"0-", b"3-1", b"0-99999999999", b"0,,2"])
def test_a_file_that_is_missing_or_damaged_is_nothing_said(tmp_path, name, text):
    file = four(tmp_path) / "cpu2" / "topology" / name
    file.unlink() if text is None else file.write_bytes(text)
    assert read(tmp_path, range(4)) == APART


@pytest.mark.parametrize("siblings", ["1", "2-3", "0,2"])
def test_cpus_that_contradict_each_other_are_nothing_said(tmp_path, siblings):
    # not itself among its siblings, one that denies it, and one in another socket
    (four(tmp_path) / "cpu2" / "topology" / "thread_siblings_list").write_text(siblings)
    assert read(tmp_path, range(4)) == APART


@pytest.mark.parametrize("text", ["", "every", "3-0"])
def test_a_damaged_list_of_online_cpus_leaves_the_usable_ones(tmp_path, text):
    (four(tmp_path) / "online").write_text(text)
    assert [t.cpu for t in read(tmp_path, range(4))] == [0, 1, 2, 3]


@each(
    ("size", "shared", "siblings", "expected"),
    [("2048K", "0", "0", 2 << 20), ("1M", "0,2", "0,2", 1 << 20), ("4096K", "0-7", "0-1", 1 << 20)],
)
def test_a_cores_own_cache_is_its_part_of_the_second(tmp_path, size, shared, siblings, expected):
    for level, name, text in ((1, "size", "48K"), (2, "size", size), (2, "shared_cpu_list", shared), (3, "size", "300M")):
        folder = tmp_path / "cpu0" / "cache" / f"index{level}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / name).write_text(f"{text}\n")
    assert core_cache_bytes([0, 1], tmp_path) == 0
    (tmp_path / "cpu0" / "topology").mkdir()
    (tmp_path / "cpu0" / "topology" / "thread_siblings_list").write_text(siblings)
    assert core_cache_bytes([0, 1], tmp_path) == expected
    assert core_cache_bytes([1], tmp_path) == 0


def test_this_host_has_places_for_the_cpus_of_this_process():
    topology = read()
    assert topology
    assert placements(topology, len(topology))[0] == "compact"
    assert {(t.socket, t.core, t.thread) for t in topology} >= {(0, 0, 0)}
