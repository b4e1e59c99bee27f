"""`infer`: what traces of accesses that anyone took say of caches and TLBs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clmembench.cli import exits


def infer(
    path: Annotated[
        Path, typer.Argument(metavar="TRACES.csv", help="trace_id,array_bytes,stride_bytes,step,offset_bytes,latency.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Every property with its interval, status, method and evidence.")
    ] = False,
) -> None:
    """Infer caches and TLBs from the latency of each access of a pointer chase, taken with CUDA, HIP, C or anything else."""
    from clmembench import tracefile
    from clmembench.infer import traces
    from clmembench.report import hierarchy_json, tree

    try:
        found = traces.infer(tracefile.read(path))
    except tracefile.TraceError as error:
        exits.stop(str(error), exits.USAGE)
    if as_json:
        print(hierarchy_json.to_json(found))
        return
    print(tree.drawn(found))
