"""Runs of a report: those of one device merged, under the device's name, and what the studies find in each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from clmembench.analysis.derive import derive
from clmembench.analysis.record_values import usual_record
from clmembench.host import checks
from clmembench.model import DeviceInfo, Header, Placement, Record, Run
from clmembench.model.device_identity import MAKERS, device_groups, model_key, model_name, number_of_devices
from clmembench.sanitize import printable
from clmembench.studies import studies
from clmembench.units import count

KINDS_IN_ORDER = ("gpu", "accelerator", "cpu")  # of a report's devices
BANDWIDTH_BENCHMARK = "stream"  # by whose values the devices of a kind are ordered
_NOISE = re.compile(r"\((?:R|TM|tm)\)|\bCPU\b|\bProcessor\b|@ ?[0-9.]+ ?GHz")
MAX_SHORT_NAME = 16  # letters that fit above a column of numbers
_NUMBER = re.compile(r" #\d+$")  # of devices of one label
_UNITS = re.compile(r"(\d+) (core|compute unit)s?")
_BRAND = re.compile(r"\b(?:GeForce|Tesla|Quadro|Radeon|Instinct|Data Center)\b (?=.*\d)")  # a model's number names it without
_FORM = re.compile(r"[ -](?:SXM\d*|PCIe|HBM\w*|\d+ ?Gi?B)(?=[ -]|$)", re.IGNORECASE)

Findings = Mapping[str, Any]  # by the name of the study that found it


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """One device: its name, and a run that holds what all its runs hold; `notes` say what was chosen and what was left out."""

    label: str
    run: Run
    notes: tuple[str, ...] = ()


def device_label(header: Header) -> str:
    """The name that people use: "NVIDIA H200", or "Intel Xeon (16 cores), PoCL 5.0"; with compute units where these are not
    known to be cores."""
    info = header.device
    name = " ".join(_NOISE.sub(" ", model_name(printable(info.name))).split()) or printable(info.name)
    if info.kind != "cpu":
        return name
    platform = printable(info.platform)
    version = ".".join(printable(info.driver).partition("+")[0].partition(" ")[0].split(".")[:3])
    runtime = {"Portable Computing Language": "PoCL"}.get(platform, _NOISE.sub("", platform)).strip()
    units = count(info.compute_units, "core" if header.host.get("cores") == info.compute_units else "compute unit")
    return f"{name} ({units}), {runtime} {version}".strip()


def short_names(labels: Sequence[str]) -> tuple[str, ...]:
    """Names for columns and rows, as short as keeps each apart from the others: "H100" of "NVIDIA H100 80GB HBM3", "Xeon 16c"
    of "Intel Xeon (16 cores), PoCL 5.0", and "Xeon 2c PoCL" where another runtime has 2 cores too. Full names belong in a
    legend."""
    steps = [_name_steps(label) for label in labels]
    chosen = [0] * len(labels)
    while True:
        names = [of[at] for of, at in zip(steps, chosen, strict=True)]
        seen = Counter(names)
        longer = [place for place, name in enumerate(names) if seen[name] > 1 and chosen[place] + 1 < len(steps[place])]
        if not longer:
            return tuple(names)
        for place in longer:
            chosen[place] += 1


def _name_steps(label: str) -> list[str]:
    """Names of a device, each with more detail than the one before, up to the whole label."""
    number = _NUMBER.search(label)
    first, *rest = label[: number.start() if number else None].split(", ")
    model, _, bracket = first.partition(" (")
    words = [word for word in model.split() if word.casefold() not in MAKERS]
    whole = _BRAND.sub("", " ".join(words)) or model
    units = _UNITS.fullmatch(bracket.removesuffix(")"))
    suffix = f" {units[1]}{'c' if units[2] == 'core' else 'u'}" if units else ""
    names = [_cut(name) + suffix for name in (_FORM.sub("", whole.partition(":")[0]), whole)]
    ends = dict.fromkeys(end for text in rest for end in (text.partition(" ")[0], text))
    names += [f"{names[0]} {end}" for end in ends]
    short = [name + (number[0] if number else "") for name in names]
    return [*dict.fromkeys(filter(str.strip, short)), label]


def _cut(name: str) -> str:
    """A name of at most MAX_SHORT_NAME letters: its first word and its numbers, or its first words, or its two ends, of which
    the last tells nodes apart."""
    if len(name) <= MAX_SHORT_NAME:
        return name
    first, *others = name.split(" ")
    numbers = " ".join([first, *(word for word in others if re.search(r"\d", word))])
    if len(first) < len(numbers) <= MAX_SHORT_NAME:
        return numbers
    half = MAX_SHORT_NAME // 2
    end = name.rfind(" ", half, MAX_SHORT_NAME + 1)
    return name[:end] if end > 0 else f"{name[:half]}…{name[1 - half :]}"


def merged_runs(runs: Sequence[Run], labels: Sequence[str] = ()) -> list[DeviceRun]:
    """Runs by model of device and driver, as `device_order` has them; those of one model in the order of their first run. A
    label of the user's, "" where there is none other than the run's own, keeps runs apart from those without it."""
    given = [*labels, *[""] * (len(runs) - len(labels))]
    groups: dict[tuple[str, int, str], list[Run]] = {}
    numbers = device_groups([run.header.device for run in runs])
    for run, label, number in zip(runs, given, numbers, strict=True):
        groups.setdefault((label or printable(run.header.label), number, run.header.device.driver), []).append(run)
    found = []
    for key, of in groups.items():
        merged, notes = _merged(of)
        found.append(DeviceRun(key[0] or device_label(merged.header), merged, notes))
    names = Counter(one.label for one in found)
    cpus = {name: {one.run.header.device.cpu_id for one in found if one.label == name} for name in names}
    seen: Counter[str] = Counter()
    for place, one in enumerate(found):
        if names[one.label] > 1:
            seen[one.label] += 1
            model = _cpu_model(one.run.header.device.cpu_id) if len(cpus[one.label]) > 1 else ""
            found[place] = replace(one, label=f"{one.label}{model} #{seen[one.label]}")
    if len(found) < 2:
        return found
    return [found[n] for n in device_order([(one.run.header.device, _memory_bandwidth(one.run)) for one in found])]


def _cpu_model(cpu_id: str) -> str:
    """What tells CPUs of one name apart, as it follows the name: ", family 6 model 207" of "GenuineIntel-6-207"."""
    _, family, model = ["", "", *cpu_id.rsplit("-", 2)][-3:]
    return f", family {family} model {model}" if family else ""


def device_order(devices: Sequence[tuple[DeviceInfo, float]]) -> list[int]:
    """Numbers of devices with a memory bandwidth each, in a report's order: GPUs, other accelerators, then CPUs; of a kind the
    model with the highest bandwidth first, and those of one model as they come."""
    models = [(model_key(info), info.compute_units) for info, _ in devices]
    highest: dict[tuple[str, int], float] = {}
    for model, (_, bandwidth) in zip(models, devices, strict=True):
        highest[model] = max(highest.get(model, 0.0), bandwidth)

    def key(number: int) -> tuple[int, float, int]:
        return KINDS_IN_ORDER.index(devices[number][0].kind), -highest[models[number]], models.index(models[number])

    return sorted(range(len(devices)), key=key)


def _memory_bandwidth(run: Run) -> float:
    """The best median of the whole device over its largest arrays; 0 where none was measured."""
    mine = [one for one in derive(run, {BANDWIDTH_BENCHMARK}) if one.metric == "bandwidth" and one.place == Placement()]
    known = [(float(one.params.get("array_bytes", 0)), one.median) for one in mine if one.median is not None]
    return max(known, default=(0.0, 0.0))[1]


def _merged(runs: Sequence[Run]) -> tuple[Run, tuple[str, ...]]:
    """One run of all records that are the latest of their point, and notes. What an experiment or a growing axis asks for
    depends on earlier answers, so all points of such a benchmark come from one run: the one with most good points, since a
    quick or an interrupted run says less."""
    if len(runs) == 1:
        return runs[0], ()
    ordered = sorted(runs, key=lambda run: (run.header.started, run.header.run_id), reverse=True)
    cards = {name: card for run in reversed(ordered) for name, card in run.header.benchmarks.items()}
    notes = [
        f"{count(len(runs), 'run')} of this device are shown as one: of each point the latest value, suspect where all are"
    ]
    pieces = number_of_devices([run.header.device for run in runs])
    if pieces > 1:
        notes.append(f"they are of {pieces} devices of this name: give them names of their own with --label where that matters")
    records: list[Record] = []
    for name in cards:
        having = [run for run in ordered if name in run.header.benchmarks]
        versions = sorted({run.header.benchmarks[name].version for run in having})
        latest = [run for run in having if run.header.benchmarks[name].version == versions[-1]]
        cards[name] = latest[0].header.benchmarks[name]
        if len(versions) > 1:
            older = ", ".join(map(str, versions[:-1]))
            notes.append(f"{name}: version {versions[-1]} is shown, and version {older} left out")
        own = [[record for record in run.records if record.benchmark == name] for run in latest]
        own = [of for of in own if of]
        if cards[name].growing or not _has_grid(name):
            own = sorted(own, key=_good_points, reverse=True)[:1]  # of as many the latest, which comes first
        records += _latest_records(own, frozenset(cards[name].tuning))
    header = replace(
        ordered[0].header,
        benchmarks=cards,
        run_id=", ".join(run.header.run_id for run in ordered),
        suite=", ".join(dict.fromkeys(run.header.suite for run in ordered)),
    )
    of_files = [note for run in ordered for note in run.notes]
    # warnings on the latest run's host are those of any run; the others' would be lost
    of_hosts = [
        f"at the start of run {run.header.run_id}: {complaint}"
        for run in ordered[1:]
        for complaint in checks.complaints(run.header.device, run.header.host, run.header.sensors)
    ]
    whole = replace(ordered[0], header=header, records=tuple(records), notes=(*of_files, *notes, *of_hosts))
    return whole, tuple(notes)


def _good_points(records: Sequence[Record]) -> int:
    return len({repr((sorted(r.params.items()), r.place)) for r in records if r.role == "measure" and r.status == "ok"})


def _has_grid(name: str) -> bool:
    """Whether the points of a benchmark are independent of each other's results; so of one that this version does not have."""
    from clmembench.benchmarks import discovered

    found = discovered().get(name)
    return found is None or not found.adaptive


def _latest_records(by_run: Sequence[Sequence[Record]], tuning: Set[str]) -> list[Record]:
    """The records of each point in the first of the runs that measured it, where it is not suspect if there is such a run, or
    else left it out; `tuning` are the parameters that were searched. A failure is as good as a value: none may hide it."""
    keyed = [[(_point(record, tuning), record) for record in records] for records in by_run]
    states = [_point_states(records) for records in keyed]
    seen: set[str] = set()
    found: list[Record] = []
    for poor in (("suspect", "skipped", ""), ("skipped", ""), ()):
        for records, state in zip(keyed, states, strict=True):
            points = {point for point, status in state.items() if status not in poor} - seen
            found += [record for point, record in records if point in points]
            seen |= points
    return found


def _point_states(keyed: Sequence[tuple[str, Record]]) -> dict[str, str]:
    """The status that most processes gave each point; "" of one that was tried alone."""
    measured: dict[str, list[Record]] = {point: [] for point, _ in keyed}
    for point, record in keyed:
        if record.role == "measure":
            measured[point].append(record)
    return {point: usual_record(records).status if records else "" for point, records in measured.items()}


def _point(record: Record, tuning: Set[str]) -> str:
    params = sorted((name, value) for name, value in record.params.items() if name not in tuning)
    return repr((params, record.place.compute_units, record.place.placement))


def with_findings(runs: Sequence[Run]) -> tuple[list[Run], list[Findings]]:
    """Runs with what the studies find in each, the runs of one device checked against each other. Raises SpecError where two
    spec sheets match a device, or one is damaged."""
    found: list[dict[str, object]] = [{} for _ in runs]
    for study in studies():
        if study.findings:
            runs, own = study.call(study.findings, runs)
            for findings, one in zip(found, own, strict=True):
                findings |= {study.name: one} if one is not None else {}
    return list(runs), [*found]
