"""Waits for CPUs, on made statistics of the scheduler and on this system's."""

from __future__ import annotations

from clmembench.host import cpu_load
from clmembench.host.cpu_load import Watch

S = 10**9


def tasks(folder, **threads):
    for name, line in threads.items():
        (folder / name[1:]).mkdir(exist_ok=True)
        (folder / name[1:] / "schedstat").write_text(line)
    return folder


def test_the_longest_wait_of_a_thread_counts_without_waking(tmp_path):
    before = cpu_load.read_waits(tasks(tmp_path, _1=f"{S} {S} 10\n", _2=f"{S} 0 0\n"))
    after = cpu_load.read_waits(
        tasks(tmp_path, _1=f"{2 * S} {S + 10**8} 20\n", _2=f"{2 * S} {S // 2} 100\n", _3=f"0 {S // 4} 1\n")
    )
    # thread 2 waited for 0.5 s, of which waking 100 times explains 2 ms; thread 3 began meanwhile
    assert cpu_load.longest_share(before, after, S) == 0.498
    assert cpu_load.longest_share(before, after, S // 10) == 1.0


def test_waking_often_is_no_wait(tmp_path):
    before = cpu_load.read_waits(tasks(tmp_path, _1=f"{S} 0 0\n"))
    after = cpu_load.read_waits(tasks(tmp_path, _1=f"{2 * S} {S // 10} 10000\n"))
    assert cpu_load.longest_share(before, after, S) == 0.0


def test_a_system_that_does_not_count_says_nothing(tmp_path):
    assert cpu_load.read_waits(tmp_path / "none") is None
    assert cpu_load.read_waits(tasks(tmp_path, _1="0 0 0\n")) is None
    (tmp_path / "1" / "schedstat").unlink()
    assert cpu_load.read_waits(tmp_path) is None
    assert cpu_load.read_waits(tasks(tmp_path, _1="what\n")) is None
    known = {"1": (0, 0)}
    assert cpu_load.longest_share(None, known, S) is None and cpu_load.longest_share(known, None, S) is None


def test_a_watch_reads_this_system():
    use = Watch().use()
    assert use.load is None  # too short for the accounting of others
    assert use.waited is None or 0 <= use.waited <= 1
