"""References: NumPy and SciPy on PoCL for real, CUDA's libraries through a CuPy that is none; right and wrong results."""

from __future__ import annotations

import ctypes
import gc
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from clmembench.benchmarks import discovered
from clmembench.measure import sampling
from clmembench.model import Batch, Call, DeviceError, Skip, Work
from clmembench.plan.budget import Budget
from clmembench.runtimes import runtime
from clmembench.runtimes.fake import FAKE_DEVICE_INFO as GPU
from clmembench.studies.peers.benchmarks import cuda_timing, reference_sparse
from tests import fake_cupy
from tests.cases import each

KIB, MIB = 1 << 10, 1 << 20
TINY = Budget(min_time_s=0.0, max_time_s=0.02, max_noise=1.0, slope_ns=1e4)
SAME = replace(GPU, pci="0000:0f:00.0", uuid="ab" * 16)
HOST = [
    ("numpy_gemm", {"dtype": "double", "n": 67}),
    ("numpy_gemm", {"dtype": "float", "n": 33}),
    ("scipy_spmv", {"matrix": "reservoir"}),
    ("scipy_spmv", {"matrix": "power_law"}),
    ("mkl_spmv", {"matrix": "power_law"}),
    ("numpy_sum", {"n": (1 << 20) + 77}),
    ("numpy_stream", {"op": "copy", "dtype": "float", "array_bytes": MIB + 12}),
    ("numpy_stream", {"op": "dot", "dtype": "float", "array_bytes": MIB + 12}),
    ("numpy_stream", {"op": "dot", "dtype": "double", "array_bytes": MIB}),
]
CUDA = [
    ("cublas_gemm", {"dtype": "double", "n": 67}),
    ("cublas_gemm", {"dtype": "float", "n": 33}),
    ("cublas_gemm_ex", {"dtype": "half", "n": 67}),
    ("cublas_gemm_ex", {"dtype": "char", "n": 36}),
    ("cublas_syrk", {"of": "data", "size": "9x8x5"}),
    ("cublas_gram", {"of": "noise", "size": "9x8x5"}),
    ("cusparse_spmv", {"matrix": "reservoir"}),
    ("cusparse_spmv", {"matrix": "power_law"}),
    ("cusparse_csr_1", {"matrix": "power_law"}),
    ("cusparse_csr_2", {"matrix": "power_law"}),
    ("cusparse_sell", {"matrix": "reservoir"}),
    ("cub_sum", {"n": (1 << 20) + 77}),
    ("cuda_copy", {"op": "copy", "dtype": "double", "array_bytes": MIB + 12}),
    ("cuda_transfer", {"direction": "to_device", "memory": "pinned", "array_bytes": MIB}),
    ("cuda_transfer", {"direction": "from_device", "memory": "pinned", "array_bytes": MIB}),
    ("cuda_transfer", {"direction": "both", "memory": "pinned", "array_bytes": MIB}),
]


class Mkl:
    """MKL's functions that mkl_spmv calls, by SciPy."""

    def MKL_Set_Num_Threads(self, threads: int) -> None:
        assert threads >= 1

    def MKL_Get_Version_String(self, text: ctypes.Array, size: int) -> None:
        text.value = b"Version 2026.2"

    def mkl_sparse_d_create_csr(self, handle, base: int, rows: int, columns: int, begins, ends, indices, values) -> int:
        def view(pointer, kind, count: int) -> np.ndarray:
            return np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(kind)), (count,))

        assert base == 0 and ends.value == begins.value + 4
        indptr = view(begins, ctypes.c_int32, rows + 1)
        parts = view(values, ctypes.c_double, indptr[-1]), view(indices, ctypes.c_int32, indptr[-1]), indptr
        self.matrix, self.view = csr_array(parts, shape=(rows, columns)), view
        return 0

    def mkl_sparse_set_mv_hint(self, handle, operation: int, description, calls: int) -> int:
        return 0 if operation == 10 and description.type == 20 else 3

    def mkl_sparse_optimize(self, handle) -> int:
        return 0

    def mkl_sparse_destroy(self, handle) -> int:
        return 0

    def mkl_sparse_d_mv(self, operation: int, alpha, handle, description, x, beta, y) -> int:
        rows, columns = self.matrix.shape
        self.view(y, ctypes.c_double, rows)[:] = alpha.value * (self.matrix @ self.view(x, ctypes.c_double, columns))
        return 0


@pytest.fixture(autouse=True)
def mkl(monkeypatch):
    found = Mkl()
    monkeypatch.setattr(reference_sparse, "_mkl", lambda: found)
    return found


@pytest.fixture(scope="module")
def pocl():
    found = [d for d in runtime("opencl").devices() if d.kind == "cpu"]
    return runtime("opencl").open(replace(found[0], array_bytes=MIB))


@pytest.fixture
def gpu(pocl, monkeypatch):
    """PoCL's device that says it is a GPU: references use no more of it than what it says of itself."""
    monkeypatch.setattr(pocl, "info", replace(SAME, array_bytes=MIB))
    return pocl


@pytest.fixture
def cupy(monkeypatch):
    monkeypatch.setattr(reference_sparse, "_cusparse", fake_cupy.Cusparse)
    return fake_cupy.installed(monkeypatch)


@each(("name", "params"), HOST)
def test_the_hosts_libraries_are_right_and_say_what_they_are(pocl, name, params):
    benchmark = discovered()[name]
    work = benchmark.prepare(pocl, **params)
    done = sampling.sample_point(pocl, work, TINY, 1.0)
    assert (done.wrong, done.checked) == ("", True)
    assert all(done.facts[key] for key in ("library", "version", "threads", "timed"))
    assert done.series[0].clock == "host" and min(done.series[0].host_ns) > 0
    assert all(work.amount(m.amount) > 0 for m in benchmark.metrics if m.applies(params))


def replaced(work: Work) -> Work:
    """The same without its call: what it leaves is what was there before."""
    return replace(work, commands=(Call(lambda: None),))


@each(("name", "params"), HOST)
def test_a_library_that_does_nothing_is_seen(pocl, name, params):
    done = sampling.sample_point(pocl, replaced(discovered()[name].prepare(pocl, **params)), TINY, 1.0)
    assert done.wrong and not done.series


def test_a_failure_of_mkl_is_one(pocl, mkl, monkeypatch):
    monkeypatch.setattr(mkl, "mkl_sparse_optimize", lambda handle: 2)
    with pytest.raises(DeviceError, match="mkl_sparse_optimize failed with status 2"):
        discovered()["mkl_spmv"].prepare(pocl, matrix="reservoir")


def test_the_same_work_is_asked_of_both(pocl):
    dgemm = {"variant": "portable", "work_group": 1, "tile": "6x8", "depth": 256, "split": 0}
    spmv = {"format": "csr_row", "hints": "none", "order": "blocked", "team": 2, "work_group": 64, "per": 1, "sigma": 1}
    for ours, theirs, params, own in (
        ("dgemm", "numpy_gemm", {"dtype": "double", "n": 67}, dgemm),
        ("spmv", "scipy_spmv", {"matrix": "reservoir"}, spmv),
        ("spmv", "scipy_spmv", {"matrix": "power_law"}, spmv),
        ("spmv", "mkl_spmv", {"matrix": "power_law"}, spmv),
    ):
        works = [discovered()[ours].prepare(pocl, **params, **own), discovered()[theirs].prepare(pocl, **params)]
        assert works[0].flops == works[1].flops
        assert works[0].nbytes == works[1].nbytes


@pytest.mark.parametrize(("name", "params"), CUDA)
def test_cudas_libraries_are_checked_and_timed_by_their_own_clock(gpu, cupy, name, params):
    benchmark = discovered()[name]
    work = benchmark.prepare(gpu, **params)
    done = sampling.sample_point(gpu, work, TINY, 1.0)
    assert (done.wrong, done.checked) == ("", True)
    assert all(done.facts[key] for key in ("library", "version", "cupy", "timed"))
    series = done.series[0]
    if isinstance(work.commands[0], Batch):
        assert series.clock == "device" and 1 < series.passes <= work.commands[0].most
        assert set(series.times_ns()) == {fake_cupy.CALL_NS * series.passes}
    else:
        assert series.clock == "host"


def test_cupys_memory_is_given_back_between_points(gpu, cupy):
    """Our kernels, in another process, may need it."""
    others = list(gc.callbacks)  # of the stubs of other tests
    cuda_timing.cupy_on(gpu.info)
    cuda_timing.cupy_on(gpu.info)
    (ours,) = [one for one in gc.callbacks if one not in others]
    before = cupy.freed
    try:
        gc.collect(0)  # as in the middle of a point
        assert cupy.freed == before
        gc.collect()
        assert cupy.freed >= before + 2  # the device's memory and the host's pinned memory
    finally:
        gc.callbacks.remove(ours)


@pytest.mark.parametrize(("name", "params"), CUDA)
def test_a_wrong_result_of_a_cuda_library_is_wrong(gpu, cupy, name, params):
    cupy.wrong = True
    done = sampling.sample_point(gpu, discovered()[name].prepare(gpu, **params), TINY, 1.0)
    assert done.wrong and not done.series


def test_what_this_cusparse_lacks_is_skipped(gpu, cupy, monkeypatch):
    monkeypatch.delattr(fake_cupy.Cusparse, "cusparseSpMV_preprocess")
    with pytest.raises(Skip, match="has no cusparseSpMV_preprocess"):
        discovered()["cusparse_csr_1"].prepare(gpu, matrix="reservoir")


def test_what_cublas_does_not_multiply_is_skipped(gpu, cupy):
    with pytest.raises(Skip, match="does not multiply matrices of char at n = 33: CUBLAS_STATUS_NOT_SUPPORTED"):
        discovered()["cublas_gemm_ex"].prepare(gpu, dtype="char", n=33)


def test_versions_are_read_as_each_library_counts_them(gpu, cupy):
    told = {name: discovered()[name].prepare(gpu, **params).facts for name, params in CUDA}
    versions = {name: facts["version"] for name, facts in told.items()}
    assert versions == {
        "cublas_gemm": "13.0.2",
        "cublas_gemm_ex": "13.0.2",
        "cublas_syrk": "13.0.2",
        "cublas_gram": "13.0.2",
        **dict.fromkeys(("cusparse_spmv", "cusparse_csr_1", "cusparse_csr_2", "cusparse_sell"), "12.6.3"),
        "cub_sum": "3.1.2",
        "cuda_copy": "13.0.0",
        "cuda_transfer": "13.0.0",
    }
    assert cuda_timing.library_facts(fake_cupy.modules()["cupy"], "x", lambda: 1 // 0, 10)["version"] == "unknown"


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"pci": "0000:0f:00.0"}, True),
        ({"pci": "00000000:0F:00.0", "uuid": ""}, True),
        ({"pci": "", "uuid": bytes(range(16)).hex()}, True),
        ({"pci": "0000:10:00.0", "uuid": "00"}, False),
        ({"pci": "", "uuid": ""}, False),
        ({"pci": "nonsense", "uuid": ""}, False),
    ],
)
def test_another_gpu_is_not_taken_for_this_one(cupy, changes, same):
    info = replace(GPU, **changes)
    if same:
        assert cuda_timing.cupy_on(info)
    else:
        with pytest.raises(Skip, match="does not see this GPU"):
            cuda_timing.cupy_on(info)


def test_a_cupy_that_does_not_work_is_a_reason(cupy, monkeypatch):
    def broken():
        raise RuntimeError("CUDA driver version is insufficient\nand more")

    monkeypatch.setattr(__import__("cupy").cuda.runtime, "getDeviceCount", broken)
    with pytest.raises(Skip, match=r"CuPy does not work here: CUDA driver version is insufficient$"):
        cuda_timing.cupy_on(SAME)


def test_a_host_that_falls_behind_waits_longer_and_is_not_timed(cupy):
    passes = cuda_timing.timed_batch(cuda_timing.cupy_on(SAME), lambda: setattr(cupy, "calls", cupy.calls + 1))
    cupy.behind = 2
    assert passes(7) == (7 * fake_cupy.CALL_NS, 2 * 7 * fake_cupy.CALL_NS)
    assert len(cupy.spins) == 3 and cupy.spins == sorted(cupy.spins) and cupy.spins[2] >= 4 * cupy.spins[0]
    cupy.behind = 100
    with pytest.raises(DeviceError, match="cannot be timed"):
        passes(7)


def test_what_a_batch_waits_for_is_not_in_the_hosts_time(pocl):
    timing = pocl.time((Batch(lambda passes: (5 * passes, 10**12)),), 3, "device")
    assert (timing.host_ns, timing.device_ns) == (0, 15)
    with pytest.raises(TypeError, match="only command"):
        pocl.time((Batch(lambda passes: (1, 0)), Call(lambda: None)), 1, "device")


@pytest.mark.parametrize(("name", "params"), [case for case in (*HOST, *CUDA) if "gemm" in case[0] or "_s" in case[0]])
def test_what_does_not_fit_is_skipped(pocl, cupy, monkeypatch, name, params):
    tiny = replace(SAME, global_mem_bytes=1000, host_mem_bytes=1000)
    monkeypatch.setattr(pocl, "info", tiny)
    if "matrix" in params:
        monkeypatch.setattr(pocl, "info", replace(tiny, array_bytes=100))
    with pytest.raises(Skip):
        discovered()[name].prepare(pocl, **params)


def test_references_speak_of_their_benchmarks_axes_and_metrics():
    known = discovered()
    peers = [b for b in known.values() if b.peer_of is not None]
    assert len(peers) > 10
    for peer in peers:
        ours = known[peer.peer_of]
        assert (
            ours.peer_of is None and peer.suite == ours.suite and peer.adaptive and peer.source and peer.summary.endswith(".")
        )
        assert set(peer.axes) <= set(ours.axes) and not any(axis.tuning for axis in peer.axes.values())
        units = {metric.name: (metric.unit, metric.better) for metric in ours.metrics}
        assert all(units[metric.name] == (metric.unit, metric.better) for metric in peer.metrics)


def test_what_is_not_here_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cuda_timing, "find_spec", lambda name: None)
    monkeypatch.setattr(reference_sparse, "_mkl_path", lambda: None)
    here = {b.name for b in discovered().values() if b.peer_of and b.is_available is not None and b.is_available(GPU)}
    assert here == set()
    cpu = replace(GPU, kind="cpu")
    assert {b.name for b in discovered().values() if b.peer_of and b.is_available(cpu)} == {
        "numpy_gemm",
        "scipy_spmv",
        "numpy_sum",
        "numpy_stream",
    }


def test_the_gpus_matrix_is_compared_with_the_hosts(gpu, cupy, monkeypatch):
    monkeypatch.setattr(fake_cupy, "_fill", lambda grid, block, arguments: arguments[0].fill(1))
    with pytest.raises(AssertionError, match="not that of dgemm"):
        discovered()["cublas_gemm"].prepare(gpu, dtype="double", n=33)


def test_a_number_that_never_was_written_is_wrong():
    from clmembench.studies.peers.benchmarks.reference_blas import _check_elements

    with pytest.raises(AssertionError, match="1 of 2 rows"):
        _check_elements(np.array([[1.0], [np.nan]]), np.array([[1.0], [2.0]]))
