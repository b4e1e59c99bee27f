"""Completion in shells, of benchmarks, suites, axes and devices; and what to say of a device that is not there.

No driver is loaded while a shell waits: names of devices come from a file that is at most an hour old, or from another process
that is given two seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from clmembench.sanitize import line, read_regular

if TYPE_CHECKING:
    from clmembench.model import Axis, Benchmark, DeviceInfo

MAX_WAIT_S = 2.0  # for a list of devices, while the user waits at the prompt
MAX_CACHE_AGE_S = 3600.0
MAX_CACHE_BYTES = 100_000
Pairs = list[tuple[str, str]]  # values and what shells show beside them


def benchmarks(context: typer.Context, incomplete: str) -> Pairs:
    """Names of benchmarks that `run` measures, those of --path too, and what each measures."""
    found = [(b.name, b.summary) for b in _known() if not b.adaptive]
    return _beginning(incomplete, [*found, *((name, "") for name in _modules_of(context))])


def all_benchmarks(incomplete: str) -> Pairs:
    """Names of all benchmarks, those that have a plan of their own too."""
    return _beginning(incomplete, ((b.name, b.summary) for b in _known()))


def tunable_benchmarks(incomplete: str) -> Pairs:
    """Names of benchmarks that have a configuration to search."""
    tunable = (b for b in _known() if not b.adaptive and any(axis.tuning for axis in b.axes.values()))
    return _beginning(incomplete, ((b.name, b.summary) for b in tunable))


def suites(incomplete: str) -> Pairs:
    """Names of suites, and how many benchmarks each has."""
    from clmembench.plan import selection

    return _beginning(incomplete, ((name, f"{len(members)} benchmarks") for name, members in selection.suites().items()))


def axes(context: typer.Context, incomplete: str) -> Pairs:
    """NAME= of the axes of the benchmarks that were named before, or of all; behind the = the words among the axis's values."""
    from clmembench.plan.selection import PLACE_AXES

    name, equals, value = incomplete.partition("=")
    chosen = _chosen(context)
    if equals:
        return [(f"{name}={word}", "") for word in axis_words(chosen, name) if word.startswith(value)]
    names = dict.fromkeys(axis for benchmark in chosen for axis in benchmark.axes)
    return _beginning(incomplete, ((f"{axis}=", "") for axis in (*names, *PLACE_AXES)))


def axis_words(chosen: Iterable[Benchmark], name: str) -> list[str]:
    """The words among the values of an axis of that name."""
    from clmembench.host.cpu_topology import PLACEMENTS

    if name == "placement":
        return list(PLACEMENTS)
    words = (word for benchmark in chosen if name in benchmark.axes for word in _words(benchmark.axes[name]))
    return list(dict.fromkeys(words))


def devices(context: typer.Context, incomplete: str) -> Pairs:
    """Ways to name each device of this host: its index, its uuid and a word that no other's name has, with its name; and for
    `run` several at once."""
    found = _listed_devices()
    if context.command.name == "run":
        found += [(kind, "one after the other, a file each") for kind in ("all", "gpu", "cpu")]
    names = [name for value, name in found if value.removeprefix("sycl:").isdecimal()]
    words = [(f"name~{word}", name) for name in names for word in _name_words(name) if sum(word in n for n in names) == 1]
    return _beginning(incomplete, [*found, *(words if incomplete else ())])


def split_axis(context: typer.Context, incomplete: str) -> list[str] | None:
    """The words of an axis's values where the word before the cursor is split at its =, as bash does; None elsewhere."""
    given = context.params.get("axis")
    at_equals = os.environ.get("COMP_WORDS", "").endswith("=")  # the cursor stands behind it
    if not given or context.args != ([] if at_equals else ["="]):
        return None
    return [word for word in axis_words(_chosen(context), str(given[-1])) if word.startswith(incomplete)]


def device_remedy(found: Sequence[DeviceInfo], text: str) -> str:
    """`did you mean ...? Or ` for a device that was not found, where part of a name was given, or nearly one; else ""."""
    from clmembench.plan import selection

    word = text.removeprefix("name~").removesuffix("~")
    inside = [d for d in found if len(word) > 1 and word.lower() in d.name.lower()]
    if len(inside) == 1:
        return f"did you mean name~{word}? Or "
    words = {part for d in found for part in _name_words(d.name)}
    meant = selection.near(word, sorted(words)) if len(word) > 2 and not inside else []
    return f"did you mean name~{meant[0]}? Or " if meant else ""


def _name_words(name: str) -> list[str]:
    """The words of a device's name, without signs that a shell would take for its own."""
    return [word for word in re.split(r"\W+", name) if len(word) > 2]


def _known() -> Iterable[Benchmark]:
    from clmembench.benchmarks import discovered

    return discovered().values()


def _chosen(context: typer.Context) -> list[Benchmark]:
    from fnmatch import fnmatchcase

    globs = context.params.get("bench") or ["*"]
    return [b for b in _known() if not b.adaptive and any(fnmatchcase(b.name, glob) for glob in globs)]


def _modules_of(context: typer.Context) -> Iterator[str]:
    """Names of the modules in the folders of --path; a shell that waits for names imports none of them."""
    for folder in context.params.get("path") or ():
        with contextlib.suppress(OSError):
            yield from sorted(path.stem for path in Path(folder).glob("[a-z]*.py"))


def _words(axis: Axis) -> list[str]:
    """The words among an axis's values on a device that has all features."""
    from clmembench.runtimes.fake import FAKE_DEVICE_INFO

    try:
        return [value for value in axis.values(FAKE_DEVICE_INFO) if isinstance(value, str)]
    except Exception:  # its values may need a real device
        return []


def _beginning(incomplete: str, pairs: Iterable[tuple[str, str]]) -> Pairs:
    return [(line(value), line(text)) for value, text in pairs if value.startswith(incomplete)]


def _cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("clmembench") / "devices.json"


def _listed_devices() -> Pairs:
    """Index and name, and uuid and name, of every device."""
    with contextlib.suppress(OSError, ValueError):
        status = _cache().stat()
        if time.time() - status.st_mtime < MAX_CACHE_AGE_S and status.st_size <= MAX_CACHE_BYTES:
            return _pairs(json.loads(read_regular(_cache(), MAX_CACHE_BYTES)))
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        found = _pairs(rows := json.loads(_ask_for_devices()))
        with contextlib.suppress(OSError):
            _cache().parent.mkdir(parents=True, exist_ok=True)
            _cache().write_text(json.dumps(rows), encoding="utf-8")
        return found
    return []


def _pairs(rows: Any) -> Pairs:
    """Raises ValueError for what is no list of devices."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("this is no list of devices")
    by_index = [(f"{'sycl:' * (row.get('runtime') == 'sycl')}{row.get('index', '')}", str(row.get("name", ""))) for row in rows]
    return [*by_index, *((f"uuid:{str(row['uuid'])[:8]}", str(row.get("name", ""))) for row in rows if row.get("uuid"))]


def _ask_for_devices() -> str:
    """What `devices --json` prints, in a process that is ended after MAX_WAIT_S: a driver may hang."""
    from clmembench.host import processes

    inherited = {name: value for name, value in os.environ.items() if "COMPLETE" not in name}
    return subprocess.run(
        [*processes.python_command("clmembench"), "devices", "--json"],
        env=processes.python_environment(inherited),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MAX_WAIT_S,
        check=True,
    ).stdout
