"""Calls of code that is none of this package's: what it prints is no output of a command, and what it raises has its name."""

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
    """What the user named has no benchmarks, or they cannot be used; the message says why, in one line."""


@contextlib.contextmanager
def foreign_code(who: str) -> Iterator[None]:
    """While the block runs, standard output is standard error. Whatever it raises is an ExternalError with the name of its
    origin; but not Ctrl-C of the user's. A copy of this process that it forks ends with the block."""
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
    """The kind of an exception and its message, in one line; the message alone where the kind says nothing to people."""
    try:
        message = " ".join(str(error).split())
    except Exception:
        message = ""
    kind = type(error).__name__
    return message if isinstance(error, DeclarationError) else f"{kind}: {message}" if message else kind


def guarded(benchmark: Benchmark, origin: str) -> Benchmark:
    """The benchmark with its origin, whose functions raise ExternalError alone where they fail or answer what is no answer."""
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
    """The function, within `foreign_code`. Errors of the kind `passed` are answers."""

    def call(*args: Any, **params: Any) -> Any:
        with foreign_code(who):
            try:
                return function(*args, **params)
            except passed as error:
                answer = error
        raise answer

    return call


def _available(who: str, function: Callable[..., bool]) -> Callable[..., bool]:
    """Whether a library is there, as far as its benchmark can say: where it fails, it is not."""
    call = _guarded(who, function)

    def is_available(*args: Any) -> bool:
        try:
            return bool(call(*args))
        except ExternalError:
            return False

    return is_available


@contextlib.contextmanager
def _noting_ctrl_c() -> Iterator[list[int]]:
    """While the block runs, a Ctrl-C of the user's is in the list; foreign code that raises KeyboardInterrupt adds none."""
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
