"""`infer`: what traces of accesses that anyone took say of caches and TLBs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clmembench.cli import exit_codes


def infer(
    path: Annotated[
        Path, typer.Argument(metavar="TRACES.csv", help="trace_id,array_bytes,stride_bytes,step,offset_bytes,latency.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Every property with its interval, status, method and evidence.")
    ] = False,
) -> None:
    """Infer caches and TLBs from the latency of each access of a pointer chase, taken with CUDA, HIP, C or anything else."""
    from clmembench.infer.trace import traces
    from clmembench.report import render
    from clmembench.report.hierarchy import hierarchy_json, tree
    from clmembench.results import trace_csv

    try:
        found = traces.infer(trace_csv.read(path))
    except trace_csv.TraceError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    if as_json:
        print(render.json_text(hierarchy_json.hierarchy_object(found)))
        return
    print(tree.drawn(found))
