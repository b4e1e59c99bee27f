"""`doctor`: what is wrong with this host for measuring, and what to do about it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from clmembench.cli import devices, exits


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is wrong with this host and its devices for measuring, each with what to do about it."""
    from clmembench import environment, health, lock, specs
    from clmembench.shown import line

    host, answers = environment.host(), []
    for index, info in enumerate(devices.listed()):
        found = health.complaints(info, host, environment.sensors(info))
        try:
            with lock.held(info):
                pass
        except lock.HeldError as error:
            what, _, remedy = str(error).rpartition(": ")
            found.append(health.Complaint(what, remedy))
        try:
            if specs.find(info) is None:
                found.append(
                    health.Complaint("no spec sheet matches, so there is no fraction of peak", "add one to platforms/")
                )
        except specs.SpecError as error:
            exits.stop(str(error), exits.USAGE)
        answers.append(
            {"index": index, "device": info.name, "complaints": [{"what": c.what, "remedy": c.remedy} for c in found]}
        )
        if not as_json:
            print(line(f"{index}  {info.name}: {'nothing to complain of' if not found else ''}").rstrip())
            for complaint in found:
                print(line(f"   - {complaint}"))
    if as_json:
        print(json.dumps({"host": host, "devices": answers}, indent=1))
