"""The reference page of tables: each file of docs/tables, with the script or command that it is from.

Usage: python scripts/site_tables.py NAME < TABLE.md, which stores a table that a script printed as docs/tables/NAME.csv. Tables
that commands print of stored runs are made by scripts/gallery/make.py.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.site_markdown import table

FOLDER = Path(__file__).parent.parent / "docs" / "tables"

# name of the file -> title, what made it, and the page that explains it
TITLES = {
    "coverage": ("Coverage of 95% intervals", "scripts/calibrate.py coverage", "measuring"),
    "false-verdicts": ("Verdicts between runs of an unchanged device", "scripts/calibrate.py pairs", "measuring"),
    "detection-limits": ("Smallest slowdown detected in 80% of cases", "scripts/calibrate.py pairs", "measuring"),
    "interleaved-error-rates": ("Error rates of interleaved A/B runs", "scripts/interleaved_error_rate.py 2000", "measuring"),
    "guideline-evidence": ("Evidence of guidelines", "clmembench/studies/guidelines", "access"),
    "xeon-phi": ("Xeon Phi, as published", "platforms/intel-xeon-phi-knc.toml", "results"),
    "suite-times": ("Time of suite all on an H200, in s", "clmembench show --time", "running"),
    "spmv-formats": ("Formats of SpMV", "cl_kernels/spmv.cl", "measuring"),
    "spmv-structures": (
        "SpMV by structure on two virtual cores of a busy Xeon, 16 MiB of values, by CPU time: rule, best found, libraries",
        "scripts/spmv_structures.py name~pthread --size 16777216 --cpu-time",
        "peers",
    ),
    "spmv-held-out": (
        "SpMV on the same Xeon, new seed; the last five structures were added when the rule stood (staircase changed it)",
        "scripts/spmv_structures.py name~pthread --size 16777216 --cpu-time --seed 23",
        "peers",
    ),
    "h200-spmv-structures": (
        "SpMV by structure on an H200: by rule (`wide` now gets slabs), best found, best of cuSPARSE's",
        "scripts/spmv_structures.py name~NVIDIA --seconds 235",
        "peers",
    ),
    "mnf-tolerances": ("MNF: what is verified", "tests/studies/mnf/test_mnf.py", "access"),
    "fleet-storm": ("Kills of the parts of a fleet", "scripts/fleet_storm.py --rounds 30 --seed 49 --csv FILE", "fleet"),
    "fleet-detection": ("Simulated fleets, slow devices", "scripts/fleet_detection.py --seed 20261127 --trials 30", "fleet"),
    "bank-error-rates": ("Inference of banks on 2000 simulated devices", "python -m tests.banked 21 1000; 22 1000", "access"),
    "private-arrays": ("Patterns of private arrays", "cl_kernels/private_array.cl", "access"),
    "figures": ("Figures over devices", "Razzaq et al. 2016", "reading"),
    "causes": ("Causes of records that are not ok", "results files", "measuring"),
    "h200-hierarchy": ("Memory hierarchy of an H200", "clmembench topology", "results"),
    "h100-hierarchy": ("Memory hierarchy of an H100", "clmembench topology", "results"),
    "epyc-hierarchy": ("Memory hierarchy of an EPYC 7003", "clmembench topology", "results"),
    "instructions": ("Instructions beside published tables", "instruction; LLVM's models of both cores", "access"),
    "h200-peers": ("H200 and the host's libraries", "clmembench peers", "results"),
    "h100-peers": ("H100 and the host's libraries", "clmembench peers", "results"),
    "xeon-16-cores-peers": ("Xeon with 16 cores and the host's libraries", "clmembench peers", "results"),
    "h200-gemm": ("H200: dense products and cuBLAS", "clmembench peers", "results"),
    "kernel-predictions": ("Kernels: predicted and measured", "scripts/validate_kernels.py", "kernel"),
    "gemm-steps": ("What bounds dense products on an H200", "trials of November 2026", "results"),
    "h200-access-patterns": ("H200: guidelines for kernels", "clmembench advise", "results"),
    "epyc-2-cores-peers": ("2-core EPYC and the host's libraries", "clmembench peers", "results"),
    "xeon-2-cores-peers": ("2-core Xeon and the host's libraries", "clmembench peers", "results"),
    "hierarchy-methods": ("How each property of the hierarchy is found", "clmembench/studies/hierarchy", "topology"),
    "undetermined": ("What stays undetermined of a hierarchy", "clmembench/studies/hierarchy", "topology"),
    "classic-methods": ("Miss rates r by the classic methods", "Mei & Chu 2015, section 4.1", "topology"),
    "published-latency-patterns": (
        "Latency patterns of simulated devices",
        "tests/studies/hierarchy/test_latency_patterns.py",
        "topology",
    ),
    "memory-divergence-h200": ("Memory divergence models on an H200", "clmembench model validate", "memory-divergence"),
    "memory-divergence-held-out": ("Held-out kernels of an H200", "clmembench model validate", "memory-divergence"),
    "other-tools": ("Other tools", "their documentation, November 2026", "peers"),
    "faults": ("Faults and their consequences", "tests/cli/test_faults.py", "testing"),
    "fault-storm": ("A storm of 500 runs", "scripts/fault_storm.py", "testing"),
    "fault-storm-surroundings": ("A storm of 300 runs with faulty surroundings", "scripts/fault_storm.py", "testing"),
    "planted-faults": ("Faults planted in kernels", "scripts/plant_kernel_faults.py", "testing"),
}


def page() -> str:
    """A section for each table."""
    parts = [
        "# Tables",
        "Tables that other pages sum up, from the files of docs/tables. Each names its origin and the page that explains it.",
    ]
    for name, (title, origin, explained) in TITLES.items():
        header, *rows = read(name)
        parts += [f"## {title}", f"From `{origin}`: [{name}.csv](../tables/{name}.csv), [explained](../{explained}.md)."]
        parts.append(table(header, rows))
    return "\n\n".join(parts) + "\n"


def read(name: str) -> list[list[str]]:
    """The header and the rows of a table."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def cells(lines: Iterable[str]) -> list[list[str]]:
    """The header and the rows of a Markdown table; other lines are left out."""
    rows = [line for line in lines if line.startswith("|") and not re.match(r"\|( *:?-+:? *\|)+\s*$", line)]
    return [[cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row.rstrip())[1:-1]] for row in rows]


if __name__ == "__main__":
    with (FOLDER / f"{sys.argv[1]}.csv").open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(cells(sys.stdin))
