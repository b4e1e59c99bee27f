"""Stored configurations: their files, the family of devices they belong to, and the one that suits a point."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from clmembench.model import Benchmark, DeviceInfo, Tuned, Value
from clmembench.model.device_identity import is_platform_renamed, model_name, name_key
from clmembench.resources import sheet_paths, tuning_paths
from clmembench.results import limits
from clmembench.results.whole_file import write_whole
from clmembench.sanitize import parse_toml, read_regular
from clmembench.specs import sheets as specs

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1
MAX_TUNING_FILE_BYTES = 4 << 20  # an entry takes half a KiB
TUNING_VARIABLE = "CLMEMBENCH_TUNING"  # the environment variable that names the user's own file
SHIPPED_ORIGIN, OWN_ORIGIN = "shipped", "own"
FILE_HEADING = """# Shapes that `clmembench tune` found to be the best, by family of devices; `clmembench run` takes them.
# docs/running.md says what each field means. Written anew whenever tune stores something: comments added here are lost.
"""

UNFINISHED = "the run's time ended its search"  # begins the note of such a point

ConfigurationTest = Callable[[Mapping[str, Value]], bool]


class TuningError(ValueError):
    """A file of stored configurations cannot be read or written; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class _File:
    schema: int
    tuned: tuple[Tuned, ...] = ()


def device_family(info: DeviceInfo) -> tuple[str, str]:
    """The hardware, and the platform that compiles for it, which devices share that have the same best configurations.

    The stem of the spec sheet that matches, else a CPU's vendor-family-model, else the model that the device's name says.
    Raises SpecError where two sheets match.
    """
    sheets = {path.stem: specs.load_once(path) for path in sheet_paths()}
    sheet = specs.match_sheet(info, list(sheets.values()))
    stem = next((name for name, known in sheets.items() if known is sheet), "")
    return stem or (info.kind == "cpu" and info.cpu_id) or model_name(info.name), info.platform


def user_tuning_path() -> Path:
    """The user's own file: the one that the environment names, else one in the user's data folder."""
    named = os.environ.get(TUNING_VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("clmembench", appauthor=False) / "tuning.toml"


def stored_configurations(
    info: DeviceInfo, benchmarks: Sequence[Benchmark], path: Path | None = None
) -> tuple[tuple[Tuned, ...], tuple[str, ...]]:
    """The stored configurations of these benchmarks, in their present versions, for this family: the user's own first (from
    `path`, else from `own_path`), then the shipped ones. Also a warning for each shipped file that is damaged and was left out.

    Raises TuningError where the user's own file is damaged, or was named and is not there, and SpecError as `family` does.
    """
    device, platform = device_family(info)
    versions = {benchmark.name: benchmark.version for benchmark in benchmarks}
    named = path is not None or bool(os.environ.get(TUNING_VARIABLE))
    own = path or user_tuning_path()
    found = list(load(own, OWN_ORIGIN)) if named or own.exists() else []
    complaints = []
    for shipped in tuning_paths():
        try:
            found += load(shipped, SHIPPED_ORIGIN)
        except TuningError as error:
            complaints.append(f"{error}; going on without it: reinstall clmembench")

    def is_ours(one: Tuned) -> bool:
        hardware = name_key(one.device) == name_key(device) and is_platform_renamed(one.platform, platform)
        return hardware and versions.get(one.benchmark) == one.version

    return tuple(filter(is_ours, found)), tuple(complaints)


def load(path: Path, origin: str = OWN_ORIGIN) -> tuple[Tuned, ...]:
    """The stored configurations in a file; unknown fields are ignored. Raises TuningError where it cannot be read, is damaged
    or has a newer schema."""
    try:
        raw = parse_toml(read_regular(path, MAX_TUNING_FILE_BYTES))
        schema = raw.get("schema")
        if type(schema) is int and schema > SCHEMA:
            raise ValueError(f"schema {schema}, and this version reads up to {SCHEMA}: upgrade clmembench")
        if type(schema) is not int or schema < 1:
            raise ValueError("it does not begin with schema = 1")
        # as JSON, where a list stands for a tuple and nothing else for another type
        read = _adapter().validate_json(json.dumps(raw, allow_nan=False), strict=True)
        for tuned in read.tuned:
            limits.check_tuned(tuned)
    except OSError as error:
        raise TuningError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError, RecursionError) as error:  # TOMLDecodeError and pydantic's error are ValueErrors
        said = " ".join(part.strip() for part in (str(error).splitlines() or [type(error).__name__])[:3])
        raise TuningError(f"{path} is no file of stored shapes: {said[:300]}") from error
    return tuple(replace(tuned, origin=origin) for tuned in read.tuned)


def make_writable(path: Path) -> None:
    """Make the folder of a file that will be written later. Raises TuningError where the file could not be written."""
    try:
        path = path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):  # of which nothing is left, whatever ends this process
            pass
        if path.exists() and not path.is_file():
            raise IsADirectoryError(0, "it is no file")
    except OSError as error:
        raise TuningError(f"cannot write {path}: {error.strerror}: choose another place with -o") from error


def save(path: Path, found: Sequence[Tuned]) -> None:
    """Store these configurations in a file. They replace those of the same points, and all of other versions of the same
    benchmarks. The file is whole at any time. Raises TuningError where it is damaged or cannot be written."""
    keys = {_entry_key(tuned) for tuned in found}
    versions = {_family_key(tuned): tuned.version for tuned in found}
    there = load(path) if path.exists() else ()
    kept = [t for t in there if _entry_key(t) not in keys and versions.get(_family_key(t), t.version) == t.version]
    text = "\n".join([FILE_HEADING + f"schema = {SCHEMA}\n", *map(_toml_entry, sorted([*kept, *found], key=_family_key))])
    try:
        write_whole(path.resolve(), text, overwrite=True)  # a link stays one
    except OSError as error:
        raise TuningError(f"cannot write {path}: {error.strerror}: choose another place with -o") from error


def stored_for(
    entries: Sequence[Tuned], info: DeviceInfo, benchmark: str, base: Mapping[str, Value], fits: ConfigurationTest
) -> Tuned | None:
    """The entry for a point: the user's own before a shipped one, and the one that names most of its parameters first. None
    where there is none for a device with as many compute units whose configuration (still) `fits`."""
    if info.work_groups is not None:
        return None
    mine = [
        t
        for t in entries
        if t.benchmark == benchmark
        and t.compute_units == info.compute_units
        and t.params.items() <= base.items()
        and fits(t.tuning)
    ]
    return max(mine, key=lambda t: (t.origin == OWN_ORIGIN, len(t.params)), default=None)


def nearest_stored(
    entries: Sequence[Tuned], benchmark: str, base: Mapping[str, Value], fits: ConfigurationTest
) -> Tuned | None:
    """The entry of the nearest point, which differs in numbers only and by the smallest factors; the first of equally near
    ones."""
    mine = [(_distance(t.params, base), t) for t in entries if t.benchmark == benchmark and fits(t.tuning)]
    near = [(distance, t) for distance, t in mine if distance is not None]
    return min(near, key=lambda pair: pair[0])[1] if near else None


def _distance(params: Mapping[str, Value], base: Mapping[str, Value]) -> float | None:
    """The distance in octaves, summed over all numbers; None where a word differs."""
    total = 0.0
    for name, value in params.items():
        other = base.get(name)
        if value == other:
            continue
        if not (_is_size(value) and _is_size(other)):
            return None
        total += abs(math.log2(float(value) / float(other)))  # type: ignore[arg-type]
    return total


def _is_size(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def provenance_note(tuned: Tuned, info: DeviceInfo) -> str:
    """The note of a record that was measured in a stored configuration: where that came from."""
    return f"tuned: {provenance(tuned, info)}"


def unfinished_note(left_out: int, configurations: int) -> str:
    """A note for the record of a point whose search the run's time ended; "" where it left none out."""
    return f"{UNFINISHED}: {left_out} of {configurations} configurations were not tried" if left_out else ""


def provenance(tuned: Tuned, info: DeviceInfo) -> str:
    """Whose file a stored configuration is in, its date, and the driver that it was found with where that is another one."""
    other = f", with driver {tuned.driver}" if tuned.driver != info.driver else ""
    return f"{tuned.origin} {tuned.date}{other}"


def _family_key(tuned: Tuned) -> tuple[str, str, int, str]:
    return name_key(tuned.device), tuned.platform, tuned.compute_units, tuned.benchmark


def _entry_key(tuned: Tuned) -> tuple[object, ...]:
    return (*_family_key(tuned), frozenset(tuned.params.items()))


def _toml_entry(tuned: Tuned) -> str:
    return "\n".join(["[[tuned]]", *_toml_fields(tuned), ""])


def _toml_fields(tuned: Tuned) -> Iterator[str]:
    for field in dataclasses.fields(tuned):
        value = getattr(tuned, field.name)
        if field.name == "origin" or value is None:
            continue
        if isinstance(value, Mapping):
            yield f"{field.name} = {{ {', '.join(f'{_toml_key(n)} = {_toml(v)}' for n, v in value.items())} }}"
        else:
            yield f"{field.name} = {_toml(value)}"


def _toml(value: Value) -> str:
    """A value in TOML, which writes it as JSON does except for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _toml(text)


@cache
def _adapter() -> TypeAdapter[_File]:
    from pydantic import TypeAdapter

    return TypeAdapter(_File)
