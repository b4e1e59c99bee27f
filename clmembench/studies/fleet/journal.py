"""The journal of a fleet's run, STORE/fleets/ID.jsonl: what is measured, its devices and how each ended. Append-only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from clmembench.host import device_lock
from clmembench.results.whole_file import write_whole

FOLDER = "fleets"


class JournalError(Exception):
    """A fleet's run cannot be resumed; the message says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fleet's run measures: the devices that a selector names, with these arguments of `run`, those among them that
    `run --resume` needs too, and the workers that it had: a scheduler's address, or how to start them."""

    fleet: str
    selector: str
    arguments: tuple[str, ...]
    resuming: tuple[str, ...]
    workers: Mapping[str, Any]


@dataclass(slots=True)
class State:
    """A fleet's run as its journal has it: `devices` by name, with their hosts and what their drivers say of them; which of
    them are complete; and how often each was given up."""

    plan: Plan
    devices: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    complete: dict[str, int] = field(default_factory=dict)  # exit codes
    attempts: dict[str, int] = field(default_factory=dict)
    ended: bool = False

    @property
    def unfinished(self) -> list[str]:
        """The devices that have points left."""
        return [name for name in self.devices if name not in self.complete]


class Journal:
    """Writes a journal, which no other client may do meanwhile. Raises JournalError where one does."""

    def __init__(self, store: Path, plan: Plan) -> None:
        self.path = store / FOLDER / f"{plan.fleet}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            write_whole(self.path, json.dumps({"plan": asdict(plan)}) + "\n")
        self._file: IO[bytes] = self.path.open("ab")
        if not device_lock.take(self._file.fileno()):
            self._file.close()
            raise JournalError(f"another process measures fleet {plan.fleet}: wait for it, or end it")
        if not self.path.read_bytes().endswith(b"\n"):
            self._file.write(b"\n")  # behind a line that a kill has torn

    def device(self, name: str, about: Mapping[str, Any]) -> None:
        """A device of the fleet."""
        self._line({"device": name, **about})

    def complete(self, name: str, code: int) -> None:
        """A device whose run is in the store, and its exit code."""
        self._line({"complete": name, "exit": code})

    def failed(self, name: str, attempt: int, reason: str) -> None:
        """A device that was given up."""
        self._line({"failed": name, "attempt": attempt, "reason": reason})

    def end(self) -> None:
        """Every device is complete."""
        self._line({"ended": True})

    def close(self) -> None:
        self._file.close()

    def _line(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(content, default=sorted).encode() + b"\n")
        self._file.flush()


def read(path: Path) -> State:
    """What a journal says. Raises JournalError for what is none."""
    try:
        first, *lines = path.read_bytes().splitlines()
        plan = json.loads(first)["plan"]
        state = State(Plan(**{**plan, "arguments": tuple(plan["arguments"]), "resuming": tuple(plan["resuming"])}))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{path} is no journal of a fleet: {error}") from error
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        if "device" in said:
            state.devices[said.pop("device")] = said
        elif "complete" in said:
            state.complete[said["complete"]] = said["exit"]
        elif "failed" in said:
            state.attempts[said["failed"]] = said["attempt"]
        state.ended = state.ended or "ended" in said
    return state


def unfinished(store: Path) -> list[State]:
    """The runs of fleets in a store that have not ended, the newest first. Raises JournalError for a damaged journal."""
    found = [read(path) for path in sorted((store / FOLDER).glob("*.jsonl"), reverse=True)]
    return [state for state in found if not state.ended]
