"""A fleet's run: what is copied, what is tried again, what is given up, and that a fleet of one works as a user starts it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import typer

from clmembench import __version__
from clmembench.cli.program import app
from clmembench.cli.running.outlook import ProgressEstimate
from clmembench.results import jsonl
from clmembench.studies.fleet import coordinator, journal, query, run_command, store, worker
from clmembench.studies.fleet.clusters import Workers, WorkersError, connected
from clmembench.studies.fleet.coordinator import Coordinator, SchedulerLostError
from clmembench.studies.fleet.journal import Journal, Plan
from tests.builders import device, record, series, write_run
from tests.commands import cli, process

PLAN = Plan("f1", "all", ("-s", "quick"), (), asdict(Workers("local", count=1)))


class Tasks:
    """Dask's client, of workers whose functions are called here; a test moves its tasks on."""

    def __init__(self, tmp_path, monkeypatch, devices):
        self.status, self.workers, self.tasks, self.cancelled = "running", {}, {}, []
        self._folder, self._monkeypatch, self._devices = tmp_path, monkeypatch, devices

    def scheduler_info(self, n_workers):
        return {"workers": self.workers}

    def run(self, function, *args, workers, on_error):
        return {address: self._answer(function, self.workers[address], args) for address in workers if address in self.workers}

    def _answer(self, function, host, args):
        self._monkeypatch.setenv(worker.FOLDER_VARIABLE, str(self._folder / host))
        if function is not worker.prepare:
            return function(*args)
        devices = {name: asdict(device(name)) for name in self._devices}
        found = worker.HostDevices(
            host=host, version=__version__, devices=devices, selectors=dict.fromkeys(devices, "0"), left_out=[]
        )
        return json.dumps(found, default=sorted)

    def submit(self, function, job, key, resources):
        self.tasks[key] = job
        return Future(self, key)

    def processing(self):
        return {address: [key for key in self.tasks if f"-{host}-" in key] for address, host in self.workers.items()}

    def file(self, job):
        return self._folder / job["name"].split("-")[1] / "f1" / f"{job['name']}.jsonl"

    def write(self, job, ops):
        """The file of a task that has measured these points."""
        path = self.file(job)
        path.unlink(missing_ok=True)
        write_run(path, [record("stream", {"op": op}, series([1000] * 8, nbytes=1 << 20)) for op in ops])

    def end(self, key, code=0):
        job = self.tasks.pop(key)
        self.file(job).parent.mkdir(parents=True, exist_ok=True)
        outcome = worker.Outcome(attempt=job["attempt"], exit=code, said="the disk is full")
        self.file(job).with_suffix(".outcome").write_text(json.dumps(outcome))


class Future:
    def __init__(self, tasks, key):
        self.key, self._tasks = key, tasks

    def cancel(self):
        self._tasks.tasks.pop(self.key, None)
        self._tasks.cancelled.append(self.key)


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """A function that measures a fleet, taking the steps of a test one after the other: its targets by device, and files."""
    monkeypatch.setattr("distributed.fire_and_forget", lambda future: None)
    for name in ("POLL_S", "UNASSIGNED_S", "NO_WORKER_S"):
        monkeypatch.setattr(coordinator, name, -1.0 if name != "POLL_S" else 0.0)

    def measure(steps, devices=("a",), hosts=("n0",), known=None):
        client = Tasks(tmp_path, monkeypatch, devices)
        client.workers = {f"tcp://{host}": host for host in hosts}
        files = []
        one = Coordinator(
            PLAN, Journal(tmp_path, PLAN), tmp_path / "incoming", lambda info: ProgressEstimate(), files.append, len(hosts), 1e9
        )
        for name, about in (known.devices if known else {}).items():
            one.add(name, about, known.attempts.get(name, 0) + 1)
        left = list(steps)
        try:
            one.measure(client, lambda: left.pop(0)(client) if left else pytest.fail(f"it goes on: {one.targets}"))
        finally:
            one.journal.close()
        assert not left
        return {name.split("-")[-1]: target for name, target in one.targets.items()}, files, client

    return measure


def test_records_are_copied_as_they_are_made_and_devices_of_a_host_follow_each_other(fleet, tmp_path):
    a, b = "f1-n0-a-1", "f1-n0-b-1"
    copy = tmp_path / "incoming" / "f1-n0-a.jsonl"

    def torn(client):
        assert list(client.tasks) == [a]
        client.write(client.tasks[a], ["copy", "add"])
        with client.file(client.tasks[a]).open("ab") as file:
            file.write(b'{"torn')

    def more(client):
        assert [one.params["op"] for one in jsonl.read(copy, strict=True).records] == ["copy", "add"]
        client.write(client.tasks[a], ["copy", "add", "triad"])
        client.end(a)

    def second(client):
        assert list(client.tasks) == [b]
        client.write(client.tasks[b], ["copy"])
        client.end(b, 4)

    targets, files, _ = fleet([torn, more, second, lambda client: None], ("a", "b"))
    assert {name: target.status for name, target in targets.items()} == {"a": "complete", "b": "complete"}
    assert not targets["a"].has_bad and targets["b"].has_bad
    assert files[0] == copy and len(jsonl.read(copy, strict=True).records) == 3
    assert journal.read(tmp_path / "fleets" / "f1.jsonl").complete == {"f1-n0-a": 0, "f1-n0-b": 4}


@pytest.mark.parametrize(("code", "attempts"), [(3, 1), (2, 1), (1, 2), (137, 2)])
def test_a_device_is_tried_again_where_it_is_not_the_cause(fleet, tmp_path, capsys, code, attempts):
    def fail(client):
        (key,) = client.tasks
        client.end(key, code)

    targets, files, _ = fleet([*[fail] * attempts, lambda client: None])
    assert targets["a"].status == "failed" and not files
    assert "the disk is full" in capsys.readouterr().err
    assert journal.read(tmp_path / "fleets" / "f1.jsonl").attempts == {"f1-n0-a": attempts}


def test_a_worker_that_dies_costs_its_unfinished_points_alone(fleet, tmp_path, capsys):
    """Another host goes on. The journal then has the device, which is resumed on a host that has lost its file."""

    def die(client):
        client.write(client.tasks["f1-n0-a-1"], ["copy", "add"])

    def gone(client):
        client.workers.pop("tcp://n0")
        client.end("f1-n1-a-1")

    steps = [die, gone, lambda client: None]
    _, files, client = fleet(steps, hosts=("n0", "n1"))
    assert "n0 has no worker any more: 2 measurements" in capsys.readouterr().err
    assert [path.name for path in files] == ["f1-n1-a.jsonl"] and client.cancelled == ["f1-n0-a-1"]
    before = (tmp_path / "incoming" / "f1-n0-a.jsonl").read_bytes()
    client.file({"name": "f1-n0-a"}).unlink()

    def resumed(client):
        assert client.file(client.tasks["f1-n0-a-2"]).read_bytes() == before
        client.end("f1-n0-a-2")

    state = journal.read(tmp_path / "fleets" / "f1.jsonl")
    state.devices.pop("f1-n1-a")
    _, files, _ = fleet([resumed, lambda client: None], known=state)
    assert [path.read_bytes() for path in files] == [before]


def test_a_restarted_worker_goes_on_once(fleet, capsys):
    def restart(address):
        def step(client):
            client.workers, client.tasks = {address: "n0"}, {}

        return step

    targets, _, _ = fleet([restart("tcp://n0:2"), restart("tcp://n0:3"), lambda client: None])
    assert targets["a"].status == "failed"
    assert capsys.readouterr().err.count("another worker goes on") == 1


def test_a_lost_scheduler_ends_the_client_with_what_it_has(fleet, tmp_path):
    def lose(client):
        client.write(client.tasks["f1-n0-a-1"], ["copy"])

    def lost(client):
        client.status = "closed"

    with pytest.raises(SchedulerLostError):
        fleet([lose, lost])
    assert len(jsonl.read(tmp_path / "incoming" / "f1-n0-a.jsonl").records) == 1
    assert journal.unfinished(tmp_path)[0].unfinished == ["f1-n0-a"]


def test_a_host_s_other_file_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.setenv(worker.FOLDER_VARIABLE, str(tmp_path))
    assert worker.restore("f", "a", b"one\n") and worker.restore("f", "a", b"on")
    assert not worker.restore("f", "a", b"two\n") and (tmp_path / "f" / "a.jsonl").read_bytes() == b"one\n"
    assert worker.restore("f", "a", b"one\ntwo\n") and worker.read_since("f", {"a": 4})["a"] == (b"two\n", True, "")


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("tcp://127.0.0.1:1", True),
        ("tls://node:1", True),
        ("tcp://node:1", False),
        ("tcp://10.0.0.1:1", False),
        ("node", False),
    ],
)
def test_an_address_off_host_needs_tls(address, is_allowed):
    if is_allowed:
        Workers("scheduler", address).check()
    else:
        with pytest.raises(WorkersError, match="tls://"):
            Workers("scheduler", address).check()
    if "://" in address:
        replace(Workers("scheduler", address), is_insecure=True).check()


def test_each_device_gets_the_options_of_its_run_and_files_by_their_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = [
        "-b",
        "spmv",
        "-b",
        "stream",
        "-a",
        "op=triad",
        "--matrix",
        "m.mtx",
        "--tuning",
        "t.toml",
        "--seed",
        "7",
        "--energy",
    ]
    command = typer.main.get_command(app).commands["fleet"].commands["run"]
    context = command.make_context("run", ["--local", "2", "-d", "gpu", "-o", "s", *given])
    words = run_command._arguments(context, run_command.RUN_OPTIONS)
    assert run_command._arguments(context, run_command.RESUMING_OPTIONS) == ("--energy",)
    asked = run_command._request(words)
    assert (asked.bench, asked.axis, asked.seed, asked.energy) == (["spmv", "stream"], ["op=triad"], 7, True)
    assert [str(asked.stored), *map(str, asked.matrix)] == [str(tmp_path / "t.toml"), str(tmp_path / "m.mtx")]


def test_a_missing_extra_is_named_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    done = cli("fleet", "run", "--local", "1", "-o", "nowhere")
    assert done.returncode == 2 and "pip install 'clmembench[fleet]'" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_client_takes_no_pickle_from_a_worker(tmp_path):
    with connected(Workers("local"), tmp_path) as client:
        client.wait_for_workers(1)
        (address,) = client.scheduler_info()["workers"]
        assert address.startswith("tls://") and client.run(bytes, 2) == {address: b"\0\0"}
        with pytest.raises(TypeError, match="serialize"):
            client.run(type, "Anything", (), {})


def test_a_fleet_of_one_on_this_host(tmp_path):
    files = {"XDG_STATE_HOME": str(tmp_path / "state"), "CLMEMBENCH_HOST_NAME": "node7"}
    done = process("fleet", "run", "--local", "1", "-d", "fake:0", "-b", "launch", "-o", str(tmp_path / "s"), **files)
    assert done.returncode == 4 and "1 of 1 device complete" in done.stdout, done.stderr  # nothing is computed, so all is wrong
    assert not list((tmp_path / "s" / "incoming").iterdir())
    with query.opened(tmp_path / "s", store.parts(tmp_path / "s")) as database:
        found = database.execute("SELECT host, records FROM runs").fetchall()
    assert found == [("node7", 3)]
    again = process("fleet", "resume", str(tmp_path / "s"), **files)
    assert again.returncode == 2 and "no fleet that was interrupted" in again.stderr
