"""Generated matrices have the structure they claim; Matrix Market files give the matrix, or one line with what is wrong."""

from __future__ import annotations

import bz2
import gzip
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from clmembench.benchmarks.spmv import matrices, matrix_market
from clmembench.benchmarks.spmv.matrices import GENERATORS, MAX_INDEX, Csr
from tests.cases import each

HEAD = "%%MatrixMarket matrix coordinate real general\n"
GOOD = HEAD + "% a comment\n2 3 3\n1 1 1.5\n2 3 -2e0\n2 1 4\n"


def sparse(a: Csr) -> csr_array:
    return csr_array((a.values, a.indices, a.indptr), shape=(a.rows, a.columns))


def text(kind: str, *lines: str) -> str:
    return "\n".join((f"%%MatrixMarket matrix {kind}", *lines, ""))


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes, name: str = "a.mtx") -> str:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


# ---- generated ------------------------------------------------------------------------------------------------------


@each("name", GENERATORS)
@each("most", [1000, 1234, 100_000])
def test_a_generated_matrix_is_well_formed_and_no_larger_than_asked(name, most):
    a = matrices.generate(name, 3, most)
    assert most / (8 if name == "rmat" else 4) < a.nonzeros <= most
    assert (a.indptr.dtype, a.indices.dtype, a.values.dtype) == (np.int32, np.int32, np.float64)
    assert (a.indptr[0], a.indptr[-1], len(a.indptr)) == (0, a.nonzeros, a.rows + 1)
    assert len(a.indices) == a.nonzeros
    assert a.row_lengths.min() > 0 or name in ("empty_rows", "rmat")
    assert a.indices.min() >= 0
    assert a.indices.max() < a.columns and (a.columns == a.rows or name in ("wide", "tall", "one_row"))
    inside = np.ones(a.nonzeros - 1, dtype=bool)
    inside[a.indptr[1:-1][a.indptr[1:-1] < a.nonzeros] - 1] = False
    assert (np.diff(a.indices)[inside] >= (0 if name == "power_law" else 1)).all()


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generated_matrix_is_its_seeds(name):
    a, same, other = (matrices.generate(name, seed, 20_000) for seed in (1, 1, 2))
    assert all(np.array_equal(getattr(a, n), getattr(same, n)) for n in ("indptr", "indices", "values"))
    assert not np.array_equal(a.values, other.values)


@pytest.mark.slow
def test_usual_sizes_are_those_documented():
    nx, ny, nz = matrices.SPE10_CELLS
    reservoir = matrices.generate("reservoir", 0)
    assert reservoir.rows == nx * ny * nz == 1_122_000
    assert reservoir.nonzeros == 7 * nx * ny * nz - 2 * (nx * ny + ny * nz + nx * nz) == 7_780_000
    del reservoir
    banded = matrices.generate("banded", 0)
    assert (banded.rows, banded.nonzeros) == (1_000_000, 27 * 1_000_000 - 13 * 14)
    del banded
    uniform = matrices.generate("uniform", 0)
    assert (uniform.rows, uniform.nonzeros) == (1_000_000, 16_000_000)
    del uniform
    power_law = matrices.generate("power_law", 0)
    assert power_law.rows == 1 << 20
    assert abs(power_law.nonzeros - 13.55e6) < 0.1e6
    assert (power_law.row_lengths.min(), power_law.row_lengths.max()) == (3, 1024)


def test_a_reservoir_is_a_symmetric_system_of_positive_exchanges():
    a = sparse(matrices.generate("reservoir", 5, 50_000))
    assert abs(a - a.T).max() == 0
    diagonal = a.diagonal()
    off = a.tocoo()
    outside = off.data[off.row != off.col]
    assert (outside < 0).all()
    assert np.ptp(np.log(-outside)) > 4, "permeabilities of a reservoir vary over orders of magnitude"
    # dominance: what is left of the diagonal is the small term
    assert np.allclose(diagonal + (a.sum(axis=1) - diagonal), 1e-3, atol=1e-9)
    assert (diagonal > 0).all()
    rows = matrices.generate("reservoir", 5, 50_000).row_lengths
    assert (rows.min(), rows.max()) == (4, 7)


def test_a_band_is_full_and_nothing_is_outside_it():
    a = sparse(matrices.generate("banded", 1, 5000)).tocoo()
    assert abs(a.row - a.col).max() == matrices.BAND_DIAGONALS
    inside = np.abs(np.subtract.outer(np.arange(a.shape[0]), np.arange(a.shape[1]))) <= matrices.BAND_DIAGONALS
    assert a.nnz == inside.sum()


def test_uniform_columns_are_everywhere():
    a = matrices.generate("uniform", 1, 160_000)
    assert (a.row_lengths == 16).all()
    assert np.histogram(a.indices, bins=10, range=(0, a.columns))[0] == pytest.approx(16_000, rel=0.05)


def test_power_law_is_the_same_however_many_rows_are_sorted_at_a_time(monkeypatch):
    a = matrices.generate("power_law", 1, 20_000)
    monkeypatch.setattr(matrices, "ROWS_AT_A_TIME", 7)
    assert np.array_equal(a.indices, matrices.generate("power_law", 1, 20_000).indices)


def test_power_law_rows_have_the_tail_of_their_exponent():
    lengths = matrices.generate("power_law", 1, 2_000_000).row_lengths
    # Pareto: twice the length is 2**1.2 times as rare
    for length in (10, 40):
        assert (lengths >= length).sum() / (lengths >= 2 * length).sum() == pytest.approx(2**1.2, rel=0.1)


def test_more_nonzeros_than_32_bits_count_and_too_few_are_refused():
    with pytest.raises(ValueError, match="2147483648 nonzeros are over 2147483647"):
        matrices._ends(np.array([MAX_INDEX, 1]))
    with pytest.raises(ValueError, match=r"too few.*raise --size"):
        matrices.generate("banded", 0, 999)


def test_product_is_the_dense_one():
    a = matrices.generate("power_law", 2, 3000)
    x = np.random.default_rng(0).standard_normal(a.columns)
    assert np.allclose(matrices.product(a, x), sparse(a).toarray() @ x)
    assert np.allclose(matrices.product(a, x, absolute=True), np.abs(sparse(a).toarray()) @ np.abs(x))


# ---- Matrix Market --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (GOOD, [[1.5, 0, 0], [4, 0, -2]]),
        (GOOD.replace("\n", "\r\n"), [[1.5, 0, 0], [4, 0, -2]]),
        (text("coordinate real symmetric", "2 2 2", "1 1 3", "2 1 5"), [[3, 5], [5, 0]]),
        (text("coordinate real skew-symmetric", "2 2 1", "2 1 5"), [[0, -5], [5, 0]]),
        (text("coordinate real Symmetric", "2 2 1", "1 2 5"), [[0, 5], [5, 0]]),  # the upper triangle alone
        (text("coordinate pattern symmetric", "2 2 2", "1 1", "2 1"), [[1, 1], [1, 0]]),
        (text("coordinate integer symmetric", "2 2 2", "2 1 3", "2 1 4"), [[0, 7], [7, 0]]),
        (text("coordinate pattern general", "2 3 2", "1 3", "2 2"), [[0, 0, 1], [0, 1, 0]]),
        (text("coordinate integer general", "3 1 1", "2 1 -7"), [[0], [-7], [0]]),
        (text("coordinate real general", "1 2 2", "1 2 1", "1 2 2"), [[0, 3]]),  # twice: added up
    ],
)
def test_files_give_their_matrix(file, content, wanted):
    path = file(content)
    assert matrix_market.is_file(path)
    a = matrix_market.read_matrix(path)
    assert (a.indptr.dtype, a.indices.dtype, a.values.dtype) == (np.int32, np.int32, np.float64)
    assert sparse(a).toarray().tolist() == wanted
    promised = matrix_market.read_header(path)
    assert (promised.rows, promised.columns) == (a.rows, a.columns)
    assert promised.nonzeros >= a.nonzeros


@pytest.mark.parametrize("end", ["", " ", "\r", "  \n\n"])
def test_the_last_line_may_end_as_it_likes(file, end):
    # SciPy 1.17 dies of a blank after the last number where no newline follows
    assert matrix_market.read_matrix(file(GOOD.removesuffix("\n") + end)).values.tolist() == [1.5, 4, -2]


def test_compressed_files_and_the_other_suffix_are_read(file):
    packed = gzip.compress(GOOD.encode())
    for path in (
        file(packed, "a.mtx.gz"), file(GOOD, "b.mm"), file(GOOD, "B.MTX"), file(packed, "c.Mtx.GZ"),
        file(bz2.compress(GOOD.encode()), "d.mtx.bz2"),
    ):  # fmt: skip
        assert matrix_market.is_file(path)
        assert matrix_market.read_matrix(path).nonzeros == 3


HEADER_FAULTS = {
    "no banner": ("2 3 2\n1 1 1\n", ":1: Not a Matrix Market file. Missing banner."),
    "nothing": ("", ":1: Not a Matrix Market file. Missing banner."),
    "bad word": (GOOD.replace("coordinate", "coordinat"), ":1: Invalid MatrixMarket header element: coordinat"),
    "no sizes": (HEAD, ":2: Invalid MatrixMarket header: Premature EOF"),
    "sizes are words": (HEAD + "2 x 3\n", ": the header's sizes: Invalid integer value."),
    "sizes over 64 bits": (HEAD + "99999999999999999999999 3 1\n", ": the header's sizes: Integer out of range."),
    "negative": (HEAD + "-2 3 1\n1 1 1\n", ":2: Matrix dimensions can't be negative."),
    "complex": (text("coordinate complex general", "1 1 1", "1 1 1 2"), ": complex entries: only real"),
    "dense": (text("array real general", "1 1", "1"), ": a dense matrix (array format)"),
    "empty": (HEAD + "2 3 0\n", ": the matrix is empty"),
    "too many rows": (HEAD + "99999999999 3 1\n1 1 1\n", ": 99999999999 by 3 with up to 1 nonzeros is over 2147483647"),
    "too many nonzeros": (HEAD + "2 3 2147483648\n1 1 1\n", "with up to 2147483648 nonzeros is over 2147483647"),
    "more than the file": (HEAD + "2 3 2000000000\n1 1 1\n", ": the header promises 2000000000 entries, more than a file of"),
    "not square": (text("coordinate real symmetric", "2 3 1", "1 3 1"), ": a symmetric matrix is square"),
    "a zero byte": (GOOD.replace("-2e0", "-2\0"), ":5: a zero byte: this is not text"),
    "binary": (b"\xff\xfe\x00\x01\n\x00", ":1: a zero byte: this is not text"),
}
BODY_FAULTS = {
    "a letter": (GOOD.replace("2 3 -2e0", "2 x 1"), ":5: Invalid integer value."),
    "a letter as value": (GOOD.replace("-2e0", "q"), ":5: Invalid floating-point value."),
    "column over": (GOOD.replace("2 3 -2e0", "2 4 1"), ":5: Column index out of bounds"),
    "row 0": (GOOD.replace("2 3 -2e0", "0 3 1"), ":5: Row index out of bounds"),
    "too few": (GOOD.replace("2 1 4\n", ""), ": Truncated file. Expected another 1 lines."),
    "too many": (GOOD + "1 2 5\n", ":7: Too many lines in file"),
    "nan": (GOOD.replace("-2e0", "nan"), ": the entry of row 2, column 3 is not finite: nan"),
    "over double in all": (
        GOOD.replace("2 3 -2e0", "2 1 1e308").replace("2 1 4", "2 1 1e308"),
        ": the entry of row 2, column 1",
    ),
    "a comma": (GOOD.replace("-2e0", "1,5"), ":5: '2 3 1,5' is not an entry: write row, column and a number such as -1.5e3"),
    "hexadecimal": (GOOD.replace("-2e0", "0x10"), ":5: '2 3 0x10' is not an entry"),
    "junk behind a number": (GOOD.replace("-2e0", "1.5junk"), ":5: '2 3 1.5junk' is not an entry"),
    "junk behind the last one": (GOOD.removesuffix("\n") + "%", ":6: '2 1 4%' is not an entry"),
    "a Fortran exponent": (GOOD.replace("-2e0", "1.5d0"), ":5: '2 3 1.5d0' is not an entry"),
    "an underscore": (GOOD.replace("-2e0", "1_0"), ":5: '2 3 1_0' is not an entry"),
    "half an exponent": (GOOD.replace("-2e0", "1e"), ":5: '2 3 1e' is not an entry"),
    "a further column": (GOOD.replace("-2e0", "1.5 7"), ":5: '2 3 1.5 7' is not an entry"),
    "a comment behind": (GOOD.replace("-2e0", "1.5 % one"), ":5: '2 3 1.5 % one' is not an entry"),
    "a fraction of a whole": (
        text("coordinate integer general", "2 2 1", "1 1 1.5"),
        ":3: '1 1 1.5' is not an entry: write row, column and a whole number",
    ),
    "a pattern's value": (
        text("coordinate pattern general", "2 2 1", "1 1 5"),
        ":3: '1 1 5' is not an entry: write row and column",
    ),
    "both triangles": (
        text("coordinate real symmetric", "2 2 3", "1 1 3", "2 1 5", "1 2 5"),
        ": the entry of row 1, column 2 of a symmetric matrix is above the diagonal, and other entries are below",
    ),
    "a skew diagonal": (
        text("coordinate real skew-symmetric", "2 2 2", "2 1 5", "2 2 1"),
        ": the entry of row 2, column 2 of a skew-symmetric matrix is on the diagonal: leave it out",
    ),
    "a row with a comma": (GOOD.replace("2 3 -2e0", "2,5 3 1"), ":5: '2,5 3 1' is not an entry"),
    "over double": (GOOD.replace("-2e0", "1e999"), ": the entry of row 2, column 3 is not finite: inf"),
}


@pytest.mark.parametrize("fault", HEADER_FAULTS)
def test_a_malformed_header_is_refused_by_file_line_and_reason(file, fault):
    content, reason = HEADER_FAULTS[fault]
    path = file(content)
    for function in (matrix_market.is_file, matrix_market.read_header, matrix_market.read_matrix):
        with pytest.raises(ValueError) as caught:
            function(path)
        assert str(caught.value).startswith(path + ":")
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", BODY_FAULTS)
def test_a_malformed_body_is_refused_by_file_line_and_reason(file, fault):
    content, reason = BODY_FAULTS[fault]
    path = file(content)
    assert matrix_market.is_file(path), "the header is good"
    with pytest.raises(ValueError) as caught:
        matrix_market.read_matrix(path)
    assert str(caught.value).startswith(path + reason)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "filler", "tail", "line"),
    [
        (HEAD + "%", "x", "\n2 2 1\n1 1 1\n", 2),  # one endless comment
        (HEAD, "% x\n", "2 2 1\n1 1 1\n", None),
        (HEAD + "2 2 1\n1 1 1\n", "\n", "", None),
        (HEAD + "2 2 1\n1 1 1\n", " ", "", 4),
        (HEAD + "2 2 1\n1 1 1", "0", "\n", 3),  # one endless number
    ],
)
def test_a_small_file_that_unpacks_to_a_large_one_is_refused_early(file, monkeypatch, head, filler, tail, line):
    monkeypatch.setattr(matrix_market, "MAX_HEADER_BYTES", 1 << 20)
    size = 64 << 20
    path = file(gzip.compress((head + filler * (size // len(filler)) + tail).encode(), 1), "a.mtx.gz")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="far more text") as caught:
            matrix_market.read_matrix(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}:")


def test_entries_as_long_as_any_and_comments_before_them_are_read(file, monkeypatch):
    monkeypatch.setattr(matrix_market, "MAX_HEADER_BYTES", 4096)
    rows = 20_000
    entry = "{0:>30} {0:>30} -1.2345678901234567890123456789e-123\n"
    body = "".join(entry.format(n + 1) for n in range(rows))
    assert matrix_market.read_matrix(file(HEAD + "% a comment\n" * 100 + f"{rows} {rows} {rows}\n" + body)).nonzeros == rows


@pytest.mark.parametrize("name", ["\x1b[2Jz.mtx", "a\nb.mtx", "\u202ea.mtx"])
def test_a_complaint_is_one_harmless_line_whatever_the_file_is_called_and_holds(file, name):
    with pytest.raises(ValueError) as caught:
        matrix_market.read_matrix(file(GOOD.replace("coordinate", "\x1b[31m"), name))
    assert str(caught.value).isprintable()


def test_files_that_cannot_be_opened_are_refused(tmp_path, file):
    missing, folder = str(tmp_path / "none.mtx"), tmp_path / "folder.mtx"
    folder.mkdir()
    whole = gzip.compress(GOOD.encode())
    broken = [
        (missing, "No such file"),
        (str(folder), "not a regular file"),
        (file(b"plain", "plain.mtx.gz"), "Not a gzipped file"),
        (file(whole[:-12], "torn.mtx.gz"), "ended before"),
        (file(b"BZh91AY", "torn.mtx.bz2"), "ended before"),
        (file(whole, "a.tar.gz"), "unpack it first: tar -xzf"),
        (file(whole, "A.MTX.XZ"), "unpack it first: unxz"),
    ]
    for path, reason in broken:
        with pytest.raises(ValueError) as caught:
            matrix_market.is_file(path)
        assert str(caught.value).startswith(path + ": ")
        assert reason in str(caught.value)


@each("value", ["banded", "a.csv", 5, 1.5, True, "", "mtx"])
def test_other_values_are_no_files(value):
    assert matrix_market.is_file(value) is False


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_written_is_read(tmp_path_factory, data):
    rows, columns = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    cells = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    entries = data.draw(st.dictionaries(cells, st.floats(-1e300, 1e300), min_size=1))
    lines = [f"{r + 1} {c + 1} {v!r}" for (r, c), v in entries.items()]
    path = tmp_path_factory.mktemp("round") / "a.mtx"
    path.write_text(text("coordinate real general", f"{rows} {columns} {len(entries)}", *lines))
    a = matrix_market.read_matrix(str(path))
    wanted = np.zeros((rows, columns))
    for place, value in entries.items():
        wanted[place] = value
    assert np.array_equal(sparse(a).toarray(), wanted)
    assert a.nonzeros == len(entries), "explicit zeros are entries"


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, len(GOOD) - 1), bytes_=st.binary(max_size=3), length=st.integers(0, 3))
def test_a_damaged_file_gives_a_matrix_or_one_line(tmp_path_factory, place, bytes_, length):
    good = GOOD.encode()
    path = tmp_path_factory.mktemp("damaged") / "a.mtx"
    path.write_bytes(good[:place] + bytes_ + good[place + length :])
    try:
        a = matrix_market.read_matrix(str(path))
    except ValueError as error:
        assert str(error).startswith(f"{path}:")
        assert "\n" not in str(error)
    else:
        assert np.isfinite(a.values).all()
        assert a.indices.max() < a.columns
