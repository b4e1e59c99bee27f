"""`doctor`: conditions of this host that disturb measurements, with remedies; claims about a device, checked by a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clmembench.cli import devices, exit_codes, options
from clmembench.cli.stored_runs import load, sheet_of

if TYPE_CHECKING:
    from clmembench.gates.claims_audit import ClaimCheck
    from clmembench.report.json_outputs import ExaminedObject


def doctor(
    device: options.AnyDevice = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="Check the claims about the device of this run instead of this host."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find what disturbs measurements on this host, with remedies."""
    claims = _audited(run) if run is not None else []
    # a stored run needs no device
    found = [] if run is not None and device is None else devices.listed(device)
    chosen = [devices.select(found, device)] if device is not None else found
    results = [_examined(found.index(info), info) for info in chosen]
    if as_json:
        from clmembench.host import environment
        from clmembench.report.json_outputs import DoctorObject
        from clmembench.report.render import json_text

        print(json_text(DoctorObject(environment.host(), results, claims)))
        return
    from clmembench.sanitize import line

    for result in results:
        good = "" if result.complaints else "no issues found"
        print(line(f"{result.index}  {result.device}: {good}").rstrip())
        for complaint in result.complaints:
            print(line(f"   - {complaint}"))
        print(line(f"   energy: {result.energy}"))
        for step in result.clock_locking:
            print(line(f"   clock: {step}"))
    for claim in claims:
        print(line(f"{claim.verdict + ':':15}{claim.what}: claimed {claim.claimed}; {claim.found}"))
    if run is not None and not claims:
        print(line(f"{run} has no evidence on the device's claims: run suite memory"))


def _examined(index: int, info: Any) -> ExaminedObject:
    from clmembench.host import checks, device_lock, environment, point_sensors, sensors
    from clmembench.report.json_outputs import ExaminedObject
    from clmembench.specs import sheets

    host, sensed = environment.host(), sensors.read(info)
    found = checks.complaints(info, host, sensed)
    try:
        with device_lock.held(info) as problem:
            pass
    except device_lock.HeldError as error:
        problem = str(error)
    if problem:
        what, _, remedy = problem.rpartition(": ")
        found.append(checks.Complaint(what, remedy))
    try:
        if sheets.match_sheet(info) is None:
            found.append(checks.Complaint("no spec sheet matches, so there is no fraction of peak", "add one to platforms/"))
    except sheets.SpecError as error:
        exit_codes.stop(str(error), exit_codes.USAGE)
    counter = point_sensors.open_sensors(info)
    energy = f"counted by {counter.source}" if counter.microjoules is not None else f"undetermined: {counter.reason}"
    return ExaminedObject(index, info.name, found, energy, checks.clock_locking(info, host, sensed))


def _audited(path: Path) -> list[ClaimCheck]:
    from clmembench.gates.claims_audit import check_claims
    from clmembench.gates.whole import judged_run

    stored = load(path)
    sheet = sheet_of(stored)
    return check_claims(judged_run(stored, sheet), sheet)
