"""What every test shares: temporary files, locks among them, and a user's folder for data of its own, so that a run beside the
tests does not stop them, and what the user has tuned does not change them."""

import gc
import os
import sys
import tempfile
from dataclasses import replace
from functools import partial, wraps

import pytest
from hypothesis import settings

from clmembench.cli.running import session
from clmembench.measure import quiet, runner

# tests start hundreds of processes, each of which would compile the package again, which takes longer than most of them run
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# each also has threads of OpenBLAS, NumPy's and SciPy's, which would look out for work for 80 ms before they sleep
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

# files that take longest, from the longest on, slow tests included: processes beside each other take them first, and end
# with short ones
SLOWEST = (
    "test_oclgrind", "test_hierarchies", "test_faults", "test_cli", "test_worker_process", "test_report", "test_tune_cli",
    "test_topology_cli", "test_docs_commands", "test_orphans", "test_current_folder", "test_opencl", "test_spmv",
    "test_mnf", "test_dgemm", "test_arithmetic", "test_external", "test_throughput", "test_compressed", "test_tlb",
    "test_level_names", "test_interleave", "test_live_cli", "test_benchmarks", "test_paired_lines", "test_plugins",
    "test_study_cli", "test_lifetime", "test_traced_pool", "test_limits", "test_guidelines", "test_age_policies",
    "test_single_lines", "test_home_partitions", "test_infer_hierarchy", "test_shared_storage", "test_example", "test_fleet",
    "test_fleet_run", "test_fleet_cli", "test_mdm_validation", "test_cache_sharing", "test_progress", "test_versions",
    "test_bulk_eviction", "test_matrices", "test_linear_index", "test_architecture", "test_eviction_sets",
    "test_candidate_lines", "test_level_behind", "test_clock_step", "test_output_file", "test_policies", "test_cli_options",
    "test_traces",
)  # fmt: skip

settings.register_profile("clmembench", deadline=None)  # how long an example takes says more of the host than of the code
settings.load_profile("clmembench")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """With -n, a process takes whole files, in the order in which they were collected."""
    if config.option.numprocesses:
        config.option.maxprocesses = config.option.maxprocesses or 8
        config.option.loadscopereorder = False
        if config.option.dist == "no":
            config.option.dist = "loadfile"


def pytest_xdist_auto_num_workers(config):
    """One more than CPUs: tests wait for processes that they start or stop for a third of their time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items):
    """The longest files first; pytest-xdist would begin with those that have most tests."""
    place = {name: number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


def pytest_collection_finish():
    """What was collected stays to the end: Python need not look through it again and again for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def no_waits():
    """Tests run beside each other: no run waits until the others have ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Repeats", partial(quiet.Repeats, wait=lambda info, most_s: ["other tests run"]))
        yield


@pytest.fixture(autouse=True, scope="session")
def one_probe():
    """Dry runs of all tests probe a device once, which takes longer than the rest of most of them."""
    probe, known = session.with_probed_features, {}

    @wraps(probe)
    def probed(info, selection):
        if info.id not in known:
            known[info.id] = probe(info, selection).features
        return replace(info, features=known[info.id])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "with_probed_features", probed)
        yield


@pytest.fixture(autouse=True, scope="session")
def own_folders(tmp_path_factory):
    folder, home = (str(tmp_path_factory.mktemp(name)) for name in ("tmp", "home"))
    names = ("TMPDIR", "XDG_DATA_HOME", "CLMEMBENCH_TUNING", "CLMEMBENCH_LOCKS", "CLMEMBENCH_NO_WAIT")
    before = {name: os.environ.pop(name, None) for name in names}, tempfile.tempdir
    os.environ["TMPDIR"] = os.environ["CLMEMBENCH_LOCKS"] = tempfile.tempdir = folder
    os.environ["XDG_DATA_HOME"] = home
    os.environ["CLMEMBENCH_NO_WAIT"] = "1"  # other tests run, and do not end
    yield
    tempfile.tempdir = before[1]
    for name, value in before[0].items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
