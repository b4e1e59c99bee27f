"""A CuPy that is NumPy: enough of it for the references, events that count calls, and libraries that may be wrong."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from clmembench.benchmarks.dgemm.dgemm import element

CALL_NS = 50_000  # that each call takes by its events
STEP_MS = 1e-6


class Memory:
    """Where an array is."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.ptr = array, array.ctypes.data

    def copy_from_device_async(self, other: Memory, nbytes: int, stream: object) -> None:
        FAKE.calls += 1
        self.array.view(np.uint8)[:nbytes] = other.array.view(np.uint8)[:nbytes]
        if FAKE.wrong:
            self.array.view(np.uint8)[:1] ^= 1


class Array(np.ndarray):
    """An array on the fake device."""

    @property
    def data(self) -> Memory:  # type: ignore[override]
        return Memory(np.asarray(self))


class Fake:
    """The state of the fake device."""

    def __init__(self) -> None:
        self.pci, self.uuid, self.wrong, self.calls, self.behind = "0000:0F:00.0", bytes(range(16)), False, 0, 0
        self.spins: list[int] = []
        self.freed = 0
        self.pool = SimpleNamespace(free_all_blocks=self._free)

    def _free(self) -> None:
        self.freed += 1


FAKE = Fake()


class Event:
    """Knows how many calls there were when it was recorded. The host is behind as often as FAKE.behind says."""

    def record(self) -> None:
        self.at = FAKE.calls

    @property
    def done(self) -> bool:
        FAKE.behind -= 1
        return FAKE.behind >= 0

    def synchronize(self) -> None: ...


def _device(array: Any) -> Array:
    return np.array(array, order="C").view(Array)


def _made(name: str) -> Any:
    return lambda *a, **k: _device(getattr(np, name)(*a, **k))


def _fill(grid: object, block: object, arguments: tuple[Any, ...]) -> None:
    matrix, seed, most, n = arguments
    assert int(most) == 4
    matrix.ravel()[:] = element(np.arange(int(n)), int(seed))


def _times(grid: object, block: object, arguments: tuple[Any, ...]) -> None:
    matrix, vectors, found, n, width = arguments
    assert int(n) == len(matrix) and int(width) == vectors.shape[1]
    found += np.asarray(matrix, np.float64) @ np.asarray(vectors)


def _spin(grid: object, block: object, arguments: tuple[Any, ...]) -> None:
    FAKE.spins.append(int(arguments[0]))


def _spoilt(array: np.ndarray) -> None:
    FAKE.calls += 1
    if FAKE.wrong:
        array.flat[0] += 1


def _matmul(a: Array, b: Array, out: Array) -> Array:
    np.matmul(a, b, out=out)
    _spoilt(out)
    return out


def _gemm(scalar: type) -> Any:
    """cuBLAS's product of square matrices by columns, none of them transposed."""

    def multiply(handle: int, *given: int) -> None:
        first, second, n, _, _, _, a, a_pitch, b, b_pitch, _, c, c_pitch = given
        assert (first, second) == (0, 0)

        def matrix(address: int, pitch: int) -> np.ndarray:
            memory = (ctypes.c_uint8 * (n * pitch * np.dtype(scalar).itemsize)).from_address(address)
            return np.frombuffer(memory, scalar).reshape(n, pitch)[:, :n].T

        result = matrix(c, c_pitch)
        result[:] = matrix(a, a_pitch) @ matrix(b, b_pitch)
        _spoilt(result)

    return multiply


class CUBLASError(RuntimeError):
    """As cupy.cuda.cublas has it."""


def _gemm_ex(handle: int, *given: int) -> None:
    """Of square matrices, the first one transposed: of halves with a result of floats, and of bytes with one of integers."""
    transposed, plain, n, _, _, _, a, a_kind, a_pitch, b, b_kind, b_pitch, _, c, c_kind, c_pitch, computed, _ = given
    if a_kind == 3 and n % 2:
        raise CUBLASError("CUBLAS_STATUS_NOT_SUPPORTED")
    assert (transposed, plain) == (1, 0) and (a_kind, c_kind, computed) in ((2, 0, 68), (3, 10, 72)) and a_kind == b_kind

    def matrix(address: int, kind: int, pitch: int) -> np.ndarray:
        """By columns."""
        scalar = np.dtype({2: np.float16, 3: np.int8, 0: np.float32, 10: np.int32}[kind])
        memory = (ctypes.c_uint8 * (n * pitch * scalar.itemsize)).from_address(address)
        return np.frombuffer(memory, scalar).reshape(n, pitch)[:, :n].T

    result = matrix(c, c_kind, c_pitch)
    result[:] = matrix(a, a_kind, a_pitch).T.astype(np.float64) @ matrix(b, b_kind, b_pitch).astype(np.float64)
    _spoilt(result)


def _doubles(address: int, *shape: int) -> np.ndarray:
    """Doubles at an address, by rows."""
    return np.frombuffer((ctypes.c_double * int(np.prod(shape))).from_address(address)).reshape(shape)


def _syrk(
    handle: int, triangle: int, transposed: int, n: int, k: int, one: int, a: int, _: int, zero: int, c: int, __: int
) -> None:
    """Of a matrix by rows: the triangle that rows call the upper one."""
    assert (triangle, transposed, _doubles(one, 1)[0], _doubles(zero, 1)[0]) == (0, 1, 1.0, 0.0)
    rows, result = _doubles(a, n, k), _doubles(c, n, n)
    result[np.triu_indices(n)] = (rows @ rows.T)[np.triu_indices(n)]
    _spoilt(result)


def _gemv(
    handle: int, transposed: int, k: int, n: int, one: int, a: int, _: int, x: int, __: int, zero: int, y: int, ___: int
) -> None:
    assert (transposed, _doubles(one, 1)[0], _doubles(zero, 1)[0]) == (1, 1.0, 0.0)
    _doubles(y, n)[:] = _doubles(a, n, k) @ _doubles(x, k)


def _sum(a: Array, out: Array) -> Array:
    out[...] = np.asarray(a).sum()
    _spoilt(out)
    return out


def _spmv(a: Any, x: Array, y: Array, alpha: float, beta: float) -> Array:
    y[:] = a.host @ np.asarray(x)
    _spoilt(y)
    return y


class Sparse:
    """csr_matrix."""

    def __init__(self, parts: tuple[Any, ...], shape: tuple[int, int]) -> None:
        from scipy.sparse import csr_matrix

        self.host = csr_matrix(tuple(np.asarray(part) for part in parts), shape=shape)

    def sum_duplicates(self) -> None:
        self.host.sum_duplicates()


class Cusparse:
    """The functions of libcusparse that a preprocessed product calls."""

    def __init__(self) -> None:
        self.vectors: list[np.ndarray] = []
        self.preprocessed = False

    def cusparseCreateCsr(self, matrix: object, rows: Any, columns: Any, nonzeros: Any, *arrays: Any) -> int:
        from scipy.sparse import csr_array

        ends, indices = _words(arrays[0].value, rows.value + 1), _words(arrays[1].value, nonzeros.value)
        assert arrays[3:] == (2, 2, 0, 1)
        self.host = csr_array((_doubles(arrays[2].value, nonzeros.value), indices, ends), shape=(rows.value, columns.value))
        return 0

    def cusparseCreateSlicedEll(
        self, matrix: object, rows: Any, columns: Any, nonzeros: Any, stored: Any, slice_rows: Any, *arrays: Any
    ) -> int:
        from scipy.sparse import csr_array

        size, height = stored.value, slice_rows.value
        offsets, indices = _words(arrays[0].value, -(-rows.value // height) + 1), _words(arrays[1].value, size)
        slices = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        row, entry = slices * height + (np.arange(size) - offsets[slices]) % height, indices >= 0
        assert entry.sum() == nonzeros.value and arrays[3:] == (2, 2, 0, 1)
        parts = _doubles(arrays[2].value, size)[entry], (row[entry], indices[entry])
        self.host = csr_array(parts, shape=(rows.value, columns.value))
        return 0

    def cusparseCreateDnVec(self, vector: object, size: Any, values: Any, kind: int) -> int:
        self.vectors.append(_doubles(values.value, size.value))
        return 0

    def cusparseSpMV_bufferSize(self, *arguments: Any) -> int:
        return 0

    def cusparseSpMV_preprocess(self, *arguments: Any) -> int:
        self.preprocessed = True
        return 0

    def cusparseSpMV(self, *arguments: Any) -> int:
        assert self.preprocessed
        x, y = self.vectors
        y[:] = self.host @ x
        _spoilt(y)
        return 0


def _words(address: int, count: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_int32 * count).from_address(address), np.int32)


def _memcpy(to: int, of: int, nbytes: int, kind: int, stream: int) -> None:
    ctypes.memmove(to, of, nbytes)
    if FAKE.wrong:
        ctypes.memset(to, 0xAA, 1)


class RawModule:
    """The kernels that the references bring, by name."""

    def __init__(self, code: str) -> None:
        assert "SCALAR" in code

    def get_function(self, name: str) -> Any:
        return {"fill": _fill, "times": _times}[name]


def modules() -> dict[str, ModuleType]:
    """What to put into sys.modules."""
    cupy, cupyx, sparse = ModuleType("cupy"), ModuleType("cupyx"), ModuleType("cupyx.scipy.sparse")
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 2,
        deviceGetPCIBusId=lambda number: FAKE.pci if number else "0000:01:00.0",
        getDeviceProperties=lambda number: {"uuid": FAKE.uuid if number else bytes(16)},
        runtimeGetVersion=lambda: 13000,
        memcpyAsync=_memcpy,
        memcpyHostToDevice=1,
        memcpyDeviceToHost=2,
    )
    stream = SimpleNamespace(ptr=0, synchronize=lambda: None)
    device = SimpleNamespace(use=lambda: None, synchronize=lambda: None)
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        runtime=runtime,
        Device=lambda number=0: device,
        Event=Event,
        get_elapsed_time=lambda a, b: STEP_MS * CALL_NS * (b.at - a.at),
        cublas=SimpleNamespace(
            getVersion=lambda handle: 130002,
            gemmEx=_gemm_ex,
            CUBLASError=CUBLASError,
            dgemm=_gemm(np.float64),
            sgemm=_gemm(np.float32),
            dsyrk=_syrk,
            dgemv=_gemv,
        ),
        cusparse=SimpleNamespace(getVersion=lambda handle: 12603),
        cub=SimpleNamespace(get_build_version=lambda: 300102),
        device=SimpleNamespace(get_cublas_handle=lambda: 0, get_cusparse_handle=lambda: 0),
        get_current_stream=lambda: stream,
        Stream=lambda non_blocking: stream,
    )
    functions = {
        "__version__": "14.2.0",
        "_core": SimpleNamespace(set_reduction_accelerators=lambda names: None),
        "get_default_memory_pool": lambda: FAKE.pool,
        "get_default_pinned_memory_pool": lambda: FAKE.pool,
        "RawKernel": lambda code, name: _spin,
        "RawModule": RawModule,
        "matmul": _matmul,
        "sum": _sum,
        "asnumpy": lambda array: np.array(array).view(np.ndarray),
        "asarray": _device,
        **{name: _made(name) for name in ("full", "empty", "zeros", "arange", "add", "ascontiguousarray")},
    }
    for name, function in functions.items():
        setattr(cupy, name, function)
    cupyx.empty_pinned = np.empty  # type: ignore[attr-defined]
    cupyx.cusparse = SimpleNamespace(spmv=_spmv)  # type: ignore[attr-defined]
    sparse.csr_matrix = Sparse  # type: ignore[attr-defined]
    return {"cupy": cupy, "cupyx": cupyx, "cupyx.scipy": ModuleType("cupyx.scipy"), "cupyx.scipy.sparse": sparse}


def installed(monkeypatch: Any) -> Fake:
    """The fake in place of CuPy for one test, in its first state."""
    FAKE.__init__()  # type: ignore[misc]
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return FAKE
