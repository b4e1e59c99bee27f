"""Kernel files: what they share is written once, in common.cl, and inclusions are resolved when a file is loaded."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from clmembench import resources
from clmembench.measure.probe import OPS_PER_STEP
from clmembench.model import Launch
from tests.builders import open_cpu
from tests.cases import each

FOLDER = resources.folders()[0]
FILES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.cl"))}
ONCE = ("2654435761", "2246822519", "OPENCL EXTENSION", "lfence", "readcyclecounter", "%%clock", "reqd_work_group_size")
COUNTS = """
#include "common.cl"
#define ADD(i) n += 1 + 100 * i;
kernel void counts(global uint* restrict out, const uint a, const uint b) {
    uint n = 0, x = a;
    REPEAT_4(n++;) out[0] = n;
    REPEAT_8(n++;) out[1] = n;
    REPEAT_16(n++;) out[2] = n;
    n = 0;
    APPLY(1, ADD) APPLY(2, ADD) APPLY(4, ADD) APPLY(8, ADD) out[3] = n;
    ALU_CHAIN_32(x, a, b) out[4] = x;
}
"""


@pytest.fixture(scope="module")
def device():
    return open_cpu()


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder of the user's whose files take the place of those of the same name."""
    monkeypatch.setenv(resources.KERNELS_VARIABLE, str(tmp_path))
    resources.kernel_source.cache_clear()
    yield tmp_path
    resources.kernel_source.cache_clear()


@each("text", ONCE)
def test_what_kernels_share_is_written_in_one_file(text):
    assert {name for name, source in FILES.items() if text in source} == {"common"}


def test_no_file_redefines_what_is_shared():
    shared = set(re.findall(r"#define (\w+)", FILES["common"]))
    for name, text in FILES.items():
        assert name == "common" or not shared & set(re.findall(r"#define (\w+)", text)), name


@each("name", FILES)
def test_every_inclusion_is_resolved_and_its_text_stands_in_the_source_once(name):
    source = resources.kernel_source(name)
    assert not re.search(r"^\s*#\s*include", source, re.MULTILINE)
    included = "#include" in re.sub(r"//.*", "", FILES[name])
    assert source.count(FILES["common"]) == (1 if included or name == "common" else 0)
    assert source.endswith(FILES[name].rpartition("#include")[2].partition("\n")[2] if included else FILES[name])


def test_a_user_s_common_file_takes_the_place_of_ours_and_changes_the_source_of_every_file_with_it(own_folder):
    before = resources.kernel_source("transpose")
    resources.kernel_source.cache_clear()
    (own_folder / "common.cl").write_text(FILES["common"].replace("2654435761u", "2654435763u"))
    assert resources.kernel_source("transpose") == before.replace("2654435761u", "2654435763u") != before


def test_files_that_include_each_other_and_a_file_that_is_missing_are_errors(own_folder):
    (own_folder / "launch.cl").write_text('#include "transfer.cl"\n')
    (own_folder / "transfer.cl").write_text('#include "launch.cl"\n')
    with pytest.raises(ValueError, match="launch -> transfer -> launch"):
        resources.kernel_source("launch")
    (own_folder / "transfer.cl").write_text('#include "nowhere.cl"\n')
    with pytest.raises(FileNotFoundError, match="nowhere"):
        resources.kernel_source("launch")


def test_repetitions_are_as_many_as_their_names_say(device, own_folder):
    (own_folder / "launch.cl").write_text(COUNTS)
    out, a, b = device.alloc(20), 0x9E3779B9, 3
    kernel = device.build(resources.kernel_source("launch"))["counts"]
    device.run([Launch(kernel, (out, np.uint32(a), np.uint32(b)), (1,), (1,))])
    x = a
    for _ in range(OPS_PER_STEP // 2):
        x = ((x ^ a) + b) % 2**32
    assert device.download(out, np.uint32, 5).tolist() == [4, 12, 28, 15 + 100 * (0 + 1 + 6 + 28), x]


@each("name", FILES)
def test_kernel_files_keep_the_house_style(name):
    text = FILES[name]
    assert text.startswith("// ") and text.endswith("\n")
    assert not re.search(r"\t|__(kernel|global|local|constant|private)\b|[ ]\n", text)
    assert max(map(len, text.splitlines())) <= 128
    # the comment above each kernel, or that of a file with one kernel, says what one work-item does
    above = re.findall(r"((?:^//.*\n)*)(?:FIXED_GROUP_SIZE.*\n)?kernel void (\w+)", text, re.MULTILINE)
    for comment, kernel in above:
        assert re.search(r"\bwork-items?\b", comment or text.partition("\n#")[0]), kernel
    assert len(above) == len(re.findall(r"\bkernel void\b", text))


def test_a_format_of_kernels_is_in_the_repository():
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        pytest.skip("no checkout")
    assert "ColumnLimit: 128" in (root / ".clang-format").read_text(encoding="utf-8")
