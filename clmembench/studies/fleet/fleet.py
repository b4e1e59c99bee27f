"""The fleet of an open store: its values by quantity and model, judged, and its histories and failures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clmembench.studies.fleet import drift, judging
from clmembench.studies.fleet.findings import (
    ApartDevice,
    DeviceStamp,
    Failing,
    FleetFindings,
    Mode,
    ModelSummary,
    Quantity,
    Strip,
    apart_value,
    benchmark_words,
    has_factor,
    rule,
    sentence,
)  # fmt: skip
from clmembench.studies.fleet.judging import CommonFactor, Flag, Floats, Judgement, Levels, Population, Thresholds, Values
from clmembench.units import format_value

if TYPE_CHECKING:
    import duckdb

MAX_BATCH_ROWS = 3_000_000  # values that are read at once
MAX_VALUES_OF_DEVICE = 20  # values that stand apart, the farthest first
MAX_FAILING = 50  # devices
BAD = ("wrong", "failed", "timeout")  # statuses of a point that a device should have measured

NUMBERED = """
CREATE TEMP TABLE numbered AS SELECT *, (row_number() OVER (ORDER BY model, device) - 1)::INTEGER AS number,
(dense_rank() OVER (ORDER BY model) - 1)::INTEGER AS model_number FROM devices;
CREATE TEMP TABLE own_runs AS SELECT run_id, started, driver, tool_version || source_revision AS revision, number, model_number,
(row_number() OVER (PARTITION BY number ORDER BY started DESC, run_id DESC) - 1)::INTEGER AS age
FROM runs JOIN (SELECT device, number, model_number FROM numbered) USING (device);
CREATE TEMP TABLE quantities AS
SELECT *, (row_number() OVER (ORDER BY benchmark, point, metric, version, unit, better) - 1)::INTEGER AS quantity
FROM (SELECT benchmark, version, point, metric, unit, better, max(headline) AS headline, count(*) AS rows
FROM points GROUP BY ALL)
"""
IDENTITY = "benchmark, version, point, metric, unit, better"
GOOD = f"""
SELECT quantity, model_number, number, age, median, repeat_sd::FLOAT AS repeat_sd, repeat_freedom::FLOAT AS repeat_freedom,
slack::FLOAT AS slack
FROM points JOIN own_runs USING (run_id) JOIN quantities USING ({IDENTITY})
WHERE benchmark = ? AND point BETWEEN ? AND ? AND status = 'ok' AND median > 0
"""  # noqa: S608 - names of our own
HISTORY = f"""
SELECT number, quantity, list(median ORDER BY age DESC) AS medians, list(repeat_sd ORDER BY age DESC) AS sds,
list(repeat_freedom ORDER BY age DESC) AS freedoms, list(slack ORDER BY age DESC) AS slacks,
list(started ORDER BY age DESC) AS started, list(driver ORDER BY age DESC) AS drivers,
list(revision ORDER BY age DESC) AS revisions
FROM points JOIN own_runs USING (run_id) JOIN quantities USING ({IDENTITY})
WHERE points.headline <> '' AND status = 'ok' AND median > 0 GROUP BY number, quantity HAVING count(*) > 1 ORDER BY ALL
"""  # noqa: S608
FAILING = """
SELECT number, list(status ORDER BY status) AS statuses,
any_value(benchmark || ' ' || point || ': ' || status || ': ' || reason) AS example
FROM points JOIN own_runs USING (run_id) WHERE age = 0 AND status IN ('wrong', 'failed', 'timeout') GROUP BY number
ORDER BY count(*) FILTER (status = 'wrong') DESC, count(*) DESC, number
"""


class Fleet:
    """The numbered devices and quantities of an open store."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self.database = database
        database.execute(NUMBERED)
        self.devices = [_stamp(row) for row in self._rows("SELECT * FROM numbered ORDER BY number")]
        names = list(Quantity.__dataclass_fields__)
        self.quantities = [
            Quantity(**{name: row[name] for name in names}) for row in self._rows("SELECT * FROM quantities ORDER BY quantity")
        ]
        models = [device.model for device in self.devices]
        self.models = sorted(set(models))
        self.first = {model: models.index(model) for model in self.models}
        self.sizes = Counter(models)
        self.factors: dict[str, tuple[Mapping[str, Levels], Mapping[str, Floats]]] = {}
        self.usual: dict[tuple[str, str], tuple[float, float]] = {}
        self.strips: list[Strip] = []
        self.counts = np.zeros(len(self.devices), dtype=np.int64)  # of judged values of each device
        self.judgement = Judgement((), (), 0, 0, 0.0)

    def _rows(self, query: str) -> Iterator[dict[str, Any]]:
        found = self.database.execute(query)
        names = [column[0] for column in found.description or ()]
        while several := found.fetchmany(10_000):
            yield from (dict(zip(names, row, strict=True)) for row in several)

    def values(self) -> Iterator[Values]:
        """The latest good value of each device, a quantity and model at a time; headlines become strips."""
        for benchmark, first, last in self._batches():
            found = self.database.execute(GOOD, [benchmark, first, last]).fetchnumpy()
            if not len(found["number"]):
                continue
            order = np.lexsort((found["age"], found["number"], found["model_number"], found["quantity"]))
            columns = {name: np.asarray(column)[order] for name, column in found.items()}
            key = columns["quantity"].astype(np.int64) * len(self.models) + columns["model_number"]
            is_latest = np.r_[True, (key[1:] != key[:-1]) | (columns["number"][1:] != columns["number"][:-1])]
            columns, key = {name: column[is_latest] for name, column in columns.items()}, key[is_latest]
            starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
            for start, end in zip(starts, [*starts[1:], len(key)], strict=True):
                self.counts[columns["number"][start:end]] += 1
                yield self._values({name: column[start:end] for name, column in columns.items()})

    def _batches(self) -> Iterator[tuple[str, str, str]]:
        """A benchmark with its first and last point of a batch of at most MAX_BATCH_ROWS rows, or of one point."""
        query = "SELECT benchmark, point, sum(rows) AS rows FROM quantities GROUP BY ALL ORDER BY ALL"
        points: list[tuple[str, str]] = []
        rows = 0
        for benchmark, point, here in self.database.execute(query).fetchall():
            if points and (points[0][0] != benchmark or rows + here > MAX_BATCH_ROWS):
                yield *points[0], points[-1][1]
                points, rows = [], 0
            points.append((benchmark, point))
            rows += here
        if points:
            yield *points[0], points[-1][1]

    def _values(self, of: Mapping[str, Any]) -> Values:
        number, model = int(of["quantity"][0]), int(of["model_number"][0])
        quantity = self.quantities[number]
        slowness = np.log(of["median"]) * (1 if quantity.better == "lower" else -1)
        if quantity.headline and len(slowness) > 1:
            middle = float(np.median(slowness))
            speed = np.exp(middle - slowness)
            self.strips.append(Strip(number, quantity, model, quantity.value(middle), of["number"].astype(np.int64), speed))
        sd, freedom, slack = (np.nan_to_num(of[name].astype(np.float64)) for name in ("repeat_sd", "repeat_freedom", "slack"))
        return Values(number, model, of["number"].astype(np.int64), slowness, sd, np.maximum(1.0, freedom), slack)

    def findings(self, limits: Thresholds = judging.DEFAULT) -> FleetFindings:
        """Judge the latest value of each device, and its headlines over time."""
        self.strips.clear()
        self.counts[:] = 0
        self.judgement = judgement = judging.judge(self.values(), limits)
        statuses = dict(self.database.execute("SELECT status, count(*) FROM points GROUP BY ALL ORDER BY ALL").fetchall())
        flags: dict[int, list[Flag]] = {}
        for flag in judgement.flags:
            flags.setdefault(flag.device, []).append(flag)
        slow = sorted(number for number, of in flags.items() if any(flag.is_slow for flag in of))
        common = {model: self.common([n for n in slow if self.devices[n].model == model], model) for model in self.models}
        flagged = [(number, self.devices[number], of) for number, of in flags.items()]
        apart = [self._apart(device, of, judgement, int(self.counts[n]), common[device.model]) for n, device, of in flagged]
        apart.sort(key=lambda one: (-one.slow, -max(abs(value.slower) for value in one.values), one.device.device))
        modes = tuple(self._mode(population) for population in judgement.populations if population.modes > 1)
        return FleetFindings(
            tuple(self._model(model, flags, common[model]) for model in self.models),
            tuple(apart), modes, tuple(self.drifts(limits)), tuple(self._failing()), statuses, judgement.judged,
            judgement.alone, rule(limits),
        )  # fmt: skip

    def slow_in(self) -> dict[tuple[int, int], list[int]]:
        """The devices that are slow in each quantity of each model, after `findings`."""
        found: dict[tuple[int, int], list[int]] = {}
        for flag in self.judgement.flags:
            if flag.is_slow:
                of = self.judgement.populations[flag.population]
                found.setdefault((of.quantity, of.model), []).append(flag.device)
        return found

    def common(self, chosen: Sequence[int], model: str) -> list[CommonFactor]:
        """What those devices have in common that others of their model have not."""
        places = np.array(sorted(chosen), dtype=np.int64) - self.first[model]
        return judging.common_factors(places, *self._factors(model)) if len(chosen) else []

    def _factors(self, model: str) -> tuple[Mapping[str, Levels], Mapping[str, Floats]]:
        """Names and numbers that devices of a model may have in common."""
        if model not in self.factors:
            devices = self.devices[self.first[model] : self.first[model] + self.sizes[model]]
            tags = sorted({name for device in devices for name in device.tags})
            names = {f"tag {name}": Levels.of([device.tags.get(name) for device in devices]) for name in tags}
            names["host"] = Levels.of([device.host for device in devices])
            names["driver"] = Levels.of([device.driver for device in devices])
            numbers = sorted({name for device in devices for name in device.numbers})
            of_numbers = {name: np.array([d.numbers.get(name, math.nan) for d in devices]) for name in numbers}
            self.factors[model] = names, of_numbers
        return self.factors[model]

    def _model(self, model: str, flags: Mapping[int, Sequence[Flag]], common: Sequence[CommonFactor]) -> ModelSummary:
        own = {number: of for number, of in flags.items() if self.devices[number].model == model}
        slow = sum(any(flag.is_slow for flag in of) for of in own.values())
        first, size = self.first[model], self.sizes[model]
        runs = sum(device.runs for device in self.devices[first : first + size])
        words = tuple(sentence(one, "slow") for one in common)
        return ModelSummary(model, size, runs, slow, len(own) - slow, words)

    def _apart(
        self, device: DeviceStamp, flags: Sequence[Flag], judgement: Judgement, judged: int, common: Sequence[CommonFactor]
    ) -> ApartDevice:
        slow = sum(flag.is_slow for flag in flags)
        ordered = sorted(flags, key=lambda flag: (not flag.is_slow, -abs(flag.effect)))
        quantities = [self.quantities[judgement.populations[flag.population].quantity] for flag in ordered]
        values = [
            apart_value(flag, judgement.populations[flag.population], quantity)
            for flag, quantity in zip(ordered, quantities, strict=True)
        ]
        reasons = [benchmark_words(quantities[:slow], "slow"), benchmark_words(quantities[slow:], "fast")]
        reasons += [sentence(one, "slow") for one in common if slow and has_factor(device, one)]
        reasons += self._unusual_numbers(device)
        return ApartDevice(
            device, judged, slow, len(flags) - slow, tuple(values[:MAX_VALUES_OF_DEVICE]), tuple(filter(None, reasons))
        )

    def _unusual_numbers(self, device: DeviceStamp) -> Iterator[str]:
        """Sensors of a device that are far off what is usual for its model, by five robust spreads and a twentieth."""
        for name, every in self._factors(device.model)[1].items():
            known = every[~np.isnan(every)]
            if name not in device.numbers or len(known) < judging.DEFAULT.min_devices:
                continue
            if (device.model, name) not in self.usual:
                self.usual[device.model, name] = judging.robust_spread(known)
            (middle, spread), value = self.usual[device.model, name], device.numbers[name]
            if abs(value - middle) > max(5 * spread, abs(middle) / 20):
                yield f"{name} {format_value(value, 4)}, usual {format_value(middle, 4)}"

    def _mode(self, of: Population) -> Mode:
        quantity, model = self.quantities[of.quantity], self.models[of.model]
        common = tuple(sentence(one, "in this mode") for one in self.common(of.devices.tolist(), model))
        return Mode(quantity.label, model, quantity.unit, quantity.value(of.middle), of.count, self.sizes[model], common)

    def drifts(self, limits: Thresholds) -> list[drift.Drift]:
        """The headlines of devices that changed over their runs."""
        if all(device.runs < 2 for device in self.devices):
            return []
        histories = []
        for row in self._rows(HISTORY):
            quantity, device = self.quantities[row["quantity"]], self.devices[row["number"]]
            columns = [row[name] for name in ("medians", "sds", "freedoms", "slacks", "started", "drivers", "revisions")]
            identity = (device.device, device.name, device.model, device.host)
            histories.append(drift.History(*identity, quantity.headline, quantity.unit, quantity.better, *map(tuple, columns)))
        return drift.drifts(histories, limits.min_effect)

    def _failing(self) -> Iterator[Failing]:
        for row in self._rows(f"{FAILING} LIMIT {MAX_FAILING}"):
            wrong, failed, timeout = (row["statuses"].count(status) for status in BAD)
            yield Failing(self.devices[row["number"]], wrong, failed, timeout, row["example"])


def _stamp(row: Mapping[str, Any]) -> DeviceStamp:
    numbers = dict(row["sensors"] or {})
    if row["core_clock_ghz"] is not None:
        numbers["core clock in GHz"] = row["core_clock_ghz"]
    names = ("device", "name", "model", "host", "driver", "runs", "last_run", "last_run_id")
    return DeviceStamp(**{name: row[name] for name in names}, tags=dict(row["tags"] or {}), numbers=numbers)
