"""Programs that record traces for `infer`, in C, CUDA and HIP: their source text, ready to compile."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"


class RecordingLanguage(StrEnum):
    """Language of a program that records traces."""

    C = "c"
    CUDA = "cuda"
    HIP = "hip"


# names that differ between CUDA and HIP
_WORDS = {
    RecordingLanguage.CUDA: {
        "BUILD": "nvcc -O2 -o record record.cu",
        "SHARED": "shared memory",
        "HEADER": "cuda_runtime.h",
        "PREFIX": "cuda",
    },
    RecordingLanguage.HIP: {
        "BUILD": "hipcc -O2 -o record record.hip",
        "SHARED": "local memory (LDS)",
        "HEADER": "hip/hip_runtime.h",
        "PREFIX": "hip",
    },
}


def recording_program(language: RecordingLanguage) -> str:
    """The source text of the program in a language."""
    words = _WORDS.get(language, {})
    text = (TEMPLATES / f"record.{'gpu' if words else 'c'}.txt").read_text(encoding="utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", value)
    return text
