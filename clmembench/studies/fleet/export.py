"""A store for other programs: gauges in Prometheus's text format, and a JUnit test case for each device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from clmembench.sanitize import printable
from clmembench.studies.fleet.fleet import BAD, FAILING
from clmembench.units import count

if TYPE_CHECKING:
    from clmembench.studies.fleet.findings import DeviceStamp, FleetFindings
    from clmembench.studies.fleet.fleet import Fleet

HEADLINES = """
SELECT number, points.headline, unit, median FROM points JOIN own_runs USING (run_id)
WHERE age = 0 AND points.headline <> '' AND status = 'ok' AND isfinite(median) ORDER BY ALL
"""
GAUGES = {  # what Prometheus shows of each
    "clmembench_value": "Latest value of a quantity of a device, in its unit.",
    "clmembench_slow_values": "Values of a device that stand apart as slow from devices of its model.",
    "clmembench_bad_points": "Points of a device's latest run by a status that says it did not measure them.",
    "clmembench_last_run_timestamp_seconds": "Start of a device's latest run.",
}


def prometheus_text(fleet: Fleet, found: FleetFindings) -> str:
    """The latest headlines, flags and failures of each device, for a textfile collector."""
    slow = {one.device.device: one.slow for one in found.apart}
    bad = _bad_points(fleet)
    samples: dict[str, list[tuple[Mapping[str, str], float]]] = {name: [] for name in GAUGES}
    labels = [_labels(device) for device in fleet.devices]
    for number, headline, unit, median in fleet.database.execute(HEADLINES).fetchall():
        samples["clmembench_value"].append(({**labels[number], "quantity": headline, "unit": unit}, median))
    for number, (device, own) in enumerate(zip(fleet.devices, labels, strict=True)):
        samples["clmembench_slow_values"].append((own, slow.get(device.device, 0)))
        for status in BAD:
            points = bad[number][0].count(status) if number in bad else 0
            samples["clmembench_bad_points"].append(({**own, "status": status}, points))
        with suppress(ValueError):  # a file of another program may have any text there
            samples["clmembench_last_run_timestamp_seconds"].append((own, datetime.fromisoformat(device.last_run).timestamp()))
    return "".join(_family(name, samples[name]) for name in GAUGES)


def _bad_points(fleet: Fleet) -> dict[int, tuple[list[str], str]]:
    """The statuses of the points that devices should have measured, and one of them in words, by a device's number."""
    return {number: (statuses, example) for number, statuses, example in fleet.database.execute(FAILING).fetchall()}


def _labels(device: DeviceStamp) -> dict[str, str]:
    return {"device": device.device, "name": device.name, "model": device.model, "host": device.host or ""}


def _family(name: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> str:
    lines = [f"# HELP {name} {GAUGES[name]}\n# TYPE {name} gauge\n"]
    for labels, value in samples:
        words = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{words}}} {float(value)!r}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def junit_text(fleet: Fleet, found: FleetFindings) -> str:
    """A test suite for each model and a test case for each device: an error where points of its latest run are bad, a failure
    where it is slow, skipped where it has too few companions to be judged."""
    apart = {one.device.device: one for one in found.apart if one.slow}
    bad = _bad_points(fleet)
    judged = {population.model for population in fleet.judgement.populations}
    suites = Xml.Element("testsuites")
    for number, model in enumerate(fleet.models):
        suite = Xml.SubElement(suites, "testsuite", name=printable(model))
        counts = dict.fromkeys(("failure", "error", "skipped"), 0)
        first, size = fleet.first[model], fleet.sizes[model]
        for at, device in enumerate(fleet.devices[first : first + size], first):
            case = Xml.SubElement(suite, "testcase", classname=printable(model), name=printable(device.name))
            outcome, said = "", ""
            if at in bad:
                outcome, said = "error", f"{count(len(bad[at][0]), 'bad point')}: {bad[at][1]}"
            elif device.device in apart:
                one = apart[device.device]
                worst = max(one.values, key=lambda value: value.slower)
                slow = f"{count(one.slow, 'value')} of {one.judged} slow"
                said = f"{slow}, {worst.quantity} by {worst.slower:.1%}; {'; '.join(one.reasons)}".removesuffix("; ")
                outcome = "failure"
            elif number not in judged:
                outcome, said = "skipped", f"{count(size, 'device')} of this model: too few to judge"
            if outcome:
                counts[outcome] += 1
                Xml.SubElement(case, outcome, message=printable(said))
        for name, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(attribute, str(counts[name]))
        suite.set("tests", str(size))
    return Xml.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
