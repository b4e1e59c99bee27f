"""`infer`: caches and TLBs from traces of access latencies that any tool recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clmembench.cli import exit_codes, options


def infer(
    path: Annotated[
        Path,
        typer.Argument(metavar="TRACES.csv", help="Columns: trace_id,array_bytes,stride_bytes,step,offset_bytes,latency."),
    ],
    as_json: options.Json = False,
) -> None:
    """Infer caches and TLBs from anyone's pointer-chase latencies.

    The file has the latency of each access, recorded with CUDA, HIP, C or any other tool. JSON has every property with its
    interval, status, method and evidence.
    """
    from clmembench.infer.trace import traces
    from clmembench.report import render
    from clmembench.report.hierarchy import hierarchy_json, tree
    from clmembench.results import trace_csv

    try:
        found = traces.infer_from_traces(trace_csv.read(path))
    except trace_csv.TraceError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    if as_json:
        print(render.json_text(hierarchy_json.hierarchy_object(found)))
        return
    print(tree.draw_tree(found))
