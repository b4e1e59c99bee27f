"""One test of many cases: what failed is listed by its values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any

import pytest

MAX_SHOWN = 5  # failures with their tracebacks


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test: starting and reporting a test takes longer than most cases do. Each case has
    its own `tmp_path` and `monkeypatch`, and `capsys` holds its output alone; other fixtures are shared by the
    cases. It is skipped where all of them are."""
    several, cases = isinstance(names, tuple), list(values)
    assert cases, "no cases"
    assert not any(isinstance(case, type(pytest.param())) for case in cases), (
        "marks of single cases: use pytest.mark.parametrize"
    )

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def whole(**fixtures: Any) -> None:
            failed, skipped = [], []
            for number, case in enumerate(cases):
                given = dict(zip(names, case, strict=True)) if several else {names: case}
                with ExitStack() as stack:
                    own = fresh(fixtures, number, stack)
                    try:
                        test(**own, **given)
                    except pytest.skip.Exception as reason:
                        skipped.append(reason)
                    except (Exception, pytest.fail.Exception, BaseExceptionGroup) as error:
                        error.add_note(", ".join(f"{name}={value!r:.200}" for name, value in given.items()))
                        failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases failed", failed[:MAX_SHOWN])
            if len(skipped) == len(cases):
                raise skipped[0]

        signature = inspect.signature(test)
        own_names = set(names) if several else {names}
        assert own_names <= signature.parameters.keys(), f"{test.__name__} does not take {own_names}"
        left = [p for p in signature.parameters.values() if p.name not in own_names]
        whole.__signature__ = signature.replace(parameters=left)
        del whole.__wrapped__
        return whole

    return decorate


def fresh(fixtures: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    """The fixtures of one case; its patches are undone when the stack is closed."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"case{number}"
        own["tmp_path"].mkdir()
    if "monkeypatch" in own:
        own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
    if "capsys" in own:
        own["capsys"].readouterr()
    return own


def covering(points: Sequence[Mapping[str, Any]], most: int | None = None) -> list[Mapping[str, Any]]:
    """Few points with each value that a parameter has among all of them: the next is the one with the most values that are
    still missing, the first of several. No more than `most`."""
    missing, chosen = {item for point in points for item in point.items()}, list[Mapping[str, Any]]()
    while (missing or not chosen) and (most is None or len(chosen) < most):
        chosen.append(max(points, key=lambda point: len(missing & set(point.items()))))
        missing -= set(chosen[-1].items())
    return chosen
