"""Calls of code from outside this package: its output does not mix with a command's, and its errors name their origin."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

from clmembench.model import Axis, Benchmark, DeclarationError
from clmembench.model import declared as check

_CALLBACKS = ("where", "default_subset", "processes", "scaling", "scaling_also", "single_unit")


class ExternalError(ValueError):
    """The user named something without benchmarks, or with unusable ones; the message gives the reason in one line."""


@contextlib.contextmanager
def foreign_code(who: str) -> Iterator[None]:
    """Redirect standard output to standard error, and convert every exception to an ExternalError that names its origin.

    A Ctrl-C of the user's is not converted. If the code forks, the copy of this process ends with the block.
    """
    pid = os.getpid()
    with contextlib.redirect_stdout(sys.stderr), _noting_ctrl_c() as pressed:
        try:
            yield
        except ExternalError:
            raise
        except BaseException as error:
            if pressed or isinstance(error, GeneratorExit):
                raise
            raise ExternalError(f"{who}: {described(error)}") from error
        finally:
            if os.getpid() != pid:
                os._exit(0)


def described(error: BaseException) -> str:
    """The kind of an exception and its message, in one line; only the message if the kind has no meaning for users."""
    try:
        message = " ".join(str(error).split())
    except Exception:
        message = ""
    kind = type(error).__name__
    return message if isinstance(error, DeclarationError) else f"{kind}: {message}" if message else kind


def guarded(benchmark: Benchmark, origin: str) -> Benchmark:
    """The benchmark with its origin; its functions raise only ExternalError if they fail or return something invalid."""
    who = f"benchmark {benchmark.name} ({origin})"

    def axes(of: dict[str, Axis]) -> dict[str, Axis]:
        return {name: _guarded_axis(who, name, axis) for name, axis in of.items()}

    given = {name: getattr(benchmark, name) for name in _CALLBACKS}
    functions: dict[str, Any] = {name: _guarded(f"{who}: {name}", of) for name, of in given.items() if of is not None}
    if benchmark.processes is not None:
        processes = benchmark.processes
        functions["processes"] = _guarded(f"{who}: processes", lambda *a, **p: check.whole("its number", processes(*a, **p), 1))
    quick = None if benchmark.quick is None else axes(dict(benchmark.quick))
    available = None if benchmark.is_available is None else _available(f"{who}: is_available", benchmark.is_available)
    return replace(benchmark, origin=origin, axes=axes(dict(benchmark.axes)), quick=quick, is_available=available, **functions)


def _guarded_axis(who: str, name: str, axis: Axis) -> Axis:
    where = f"{who}: axis {name}"
    values = _guarded(who, lambda info: check.axis_values(name, axis.values(info), axis.per_octave > 0))
    return replace(axis, values=values, accepts=None if axis.accepts is None else _guarded(where, axis.accepts, ValueError))


def _guarded(who: str, function: Callable[..., Any], passed: type[Exception] = ExternalError) -> Callable[..., Any]:
    """The function, called within `foreign_code`. Errors of the kind `passed` are passed on."""

    def call(*args: Any, **params: Any) -> Any:
        with foreign_code(who):
            try:
                return function(*args, **params)
            except passed as error:
                answer = error
        raise answer

    return call


def _available(who: str, function: Callable[..., bool]) -> Callable[..., bool]:
    """Whether the benchmark's library is available; False if its test fails."""
    call = _guarded(who, function)

    def is_available(*args: Any) -> bool:
        try:
            return bool(call(*args))
        except ExternalError:
            return False

    return is_available


@contextlib.contextmanager
def _noting_ctrl_c() -> Iterator[list[int]]:
    """The list gets an entry for each Ctrl-C of the user's while the block runs, none for a KeyboardInterrupt that code
    raises."""
    pressed: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return
    handle = before

    def note(number: int, frame: FrameType | None) -> Any:
        pressed.append(number)
        return handle(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
