"""Records that older versions wrote: they told why a record is not ok in words only, which are read here and nowhere else."""

from __future__ import annotations

import dataclasses

from clmembench.model import Cause, Record

# how the reasons of versions without `cause` began, by status
_SKIPPED = (
    ("the run's --budget was spent", Cause.BUDGET),
    ("the time that --benchmark-timeout gives one benchmark was spent", Cause.BENCHMARK_BUDGET),
    ("device has no ", Cause.MISSING_FEATURE),
    ("", Cause.UNSUPPORTED),
)
_FAILED = (
    ("its process answered with something", Cause.INVALID_ANSWER),
    ("its process ", Cause.PROCESS_DIED),
    ("no answer within", Cause.TIMEOUT),
    ("the device was lost", Cause.DEVICE_LOST),
    ("not tried: ", Cause.QUARANTINE),
    ("no process could be started", Cause.PROCESS_NOT_STARTED),
    ("the device cannot be opened", Cause.DEVICE_UNAVAILABLE),
    ("it needs a process of its own", Cause.ISOLATION_OFF),
    ("build failed", Cause.BUILD),
    ("internal error in ", Cause.INTERNAL_ERROR),
    ("what was measured cannot be stored", Cause.NOT_STORABLE),
    ("its record takes ", Cause.NOT_STORABLE),
    ("the host is out of memory", Cause.OUT_OF_MEMORY),
    ("Unable to allocate ", Cause.OUT_OF_MEMORY),
    ("", Cause.DEVICE_ERROR),
)


def with_cause(record: Record) -> Record:
    """The record with a cause: its own, or the one that the reason of a record without one tells."""
    if record.status == "ok" or record.cause is not Cause.NONE:
        return record
    return dataclasses.replace(record, cause=_cause(record.status, record.reason))


def _cause(status: str, reason: str) -> Cause:
    """What a reason of a version without causes means: every sentence that such a version wrote, by its beginning."""
    if status == "suspect":
        return Cause.GATE
    if status == "wrong":
        return Cause.WRONG_RESULT
    known = _SKIPPED if status == "skipped" else _FAILED
    found = next(cause for start, cause in known if reason.startswith(start))
    return Cause.TIMEOUT if status == "timeout" and found is Cause.DEVICE_ERROR else found
