"""Measure the error rates of `fleet` on simulated fleets: python scripts/fleet_detection.py [--seed N] [--trials N].

There are 100 quantities, each with a spread of its own between devices (log-normal around 0.7%, 0.2% to 5% for most), and each
value has the noise of its repetition (0.3%). A planted device is slower by the effect in a third of its quantities. Heavy
tails: the spread is Student's with 4 degrees of freedom. Noisy devices: one in twenty repeats within 5%, as it reports. Two
populations: in half of the quantities 30% of the devices are slower by 8%. One host: the planted devices are those of a host.

A case prints the share of planted devices that have a flag, the share of their slow values that are flagged, the share of flags
that are of no planted value (to be held against the rate of 1%), and how many of 1,000 healthy devices have any flag.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clmembench.studies.fleet.judging import (
    DEFAULT,
    Floats,
    Integers,
    Judgement,
    Levels,
    Thresholds,
    Values,
    common_factors,
    judge,
)

SPREAD, SPREAD_SD, NOISE = 0.007, 0.8, 0.003  # of quantities between devices, its spread as a logarithm, and repetition
DEVICES_OF_A_HOST = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A simulated fleet: `planted` devices are slower by `effect`; `kind` says what else is not ideal."""

    kind: str
    devices: int
    planted: int
    effect: float
    quantities: int = 100


CASES = (
    *(Case("plain", devices, 0, 0.0) for devices in (3, 5, 10, 100, 1000)),
    *(Case("plain", 3, 1, effect) for effect in (0.1, 0.2, 0.4)),
    *(Case("plain", devices, 1, effect) for devices in (5, 10) for effect in (0.05, 0.1, 0.2)),
    *(Case("plain", 16, 3, effect) for effect in (0.05, 0.1, 0.2)),
    *(Case("plain", 100, 3, effect) for effect in (0.02, 0.03, 0.05, 0.1, 0.2)),
    *(Case("plain", 1000, 10, effect) for effect in (0.02, 0.03, 0.05, 0.1, 0.2)),
    Case("heavy tails", 10, 1, 0.1),
    Case("heavy tails", 100, 3, 0.1),
    Case("heavy tails", 1000, 10, 0.1),
    Case("noisy devices", 1000, 10, 0.1),
    Case("two populations", 100, 3, 0.1),
    Case("two populations", 1000, 10, 0.1),
    Case("one host", 100, 8, 0.1),
    Case("one host", 1000, 8, 0.1),
    Case("many slow", 1000, 50, 0.1),
)


def simulated(case: Case, rng: np.random.Generator) -> Iterator[tuple[Values, Integers]]:
    """The values of each quantity, and the devices that are slow in it."""
    spreads = np.exp(rng.normal(np.log(SPREAD), SPREAD_SD, case.quantities))
    first = DEVICES_OF_A_HOST * (case.devices // DEVICES_OF_A_HOST // 2)  # planted devices are neighbours
    slow = np.arange(first, first + case.planted)
    second_mode = rng.permutation(case.devices)[: int(0.3 * case.devices)]
    noisy = rng.random(case.devices) < 0.05
    for quantity, spread in enumerate(spreads):
        values = rng.normal(0, spread, case.devices)
        if case.kind == "heavy tails":
            values = spread * rng.standard_t(4, case.devices)
        sd = np.full(case.devices, NOISE)
        if case.kind == "noisy devices":
            sd = np.where(noisy, 0.05, sd)
        values += rng.normal(0, sd)
        if case.kind == "two populations" and quantity % 2:
            values[second_mode] += 0.08
        is_affected = quantity % 3 == 0
        if is_affected:
            values[slow] += -np.log1p(-case.effect)
        of = Values(quantity, 0, np.arange(case.devices), values, sd, np.full(case.devices, 4.0), np.zeros(case.devices))
        yield of, slow if is_affected else slow[:0]


def outcome(case: Case, rng: np.random.Generator, limits: Thresholds) -> Floats:
    """Shares of planted devices found and of slow values flagged; false and all flags, healthy devices flagged and all; whether
    the host that the planted devices share is named."""
    every = list(simulated(case, rng))
    planted = {(values.quantity, int(device)) for values, slow in every for device in slow}
    found: Judgement = judge((values for values, _ in every), limits)
    flagged = {(found.populations[flag.population].quantity, flag.device) for flag in found.flags}
    devices = {device for _, device in planted}
    hit = {device for one, device in flagged if (one, device) in planted}
    healthy = {device for one, device in flagged - planted if device not in devices}
    hosts = [f"n{number // DEVICES_OF_A_HOST}" for number in range(case.devices)]
    slow = np.array(sorted({flag.device for flag in found.flags if flag.is_slow}), dtype=np.int64)
    named = [one.level for one in common_factors(slow, {"host": Levels.of(hosts)}, {}, limits)] if len(slow) else []
    is_named = bool(devices) and named[:1] == [hosts[min(devices)]]
    return np.array(
        [
            len(hit) / max(1, len(devices)), len(flagged & planted) / max(1, len(planted)), len(flagged - planted),
            len(flagged), len(healthy), case.devices - len(devices), is_named,
        ]
    )  # fmt: skip


def table(seed: int, trials: int, limits: Thresholds = DEFAULT) -> Iterator[str]:
    """A line of Markdown for each case."""
    yield "| fleet | devices | slow | effect | slow devices found | slow values flagged | false flags | healthy flagged |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for number, case in enumerate(CASES):
        # small fleets need more trials for as many devices
        of_case = max(trials, trials * 20 // case.devices)
        found = np.array([outcome(case, np.random.default_rng([seed, number, trial]), limits) for trial in range(of_case)])
        device, value, *_ = found.mean(axis=0)
        false, flags, healthy, well, named = found[:, 2:].sum(axis=0)
        rates = ["–", "–"] if not case.planted else [f"{device:.0%}", f"{value:.0%}"]
        # the mean proportion over trials is what Benjamini and Hochberg bound
        proportion = float(np.mean(found[:, 2] / np.maximum(1, found[:, 3])))
        kind = f"{case.kind} (named in {named / of_case:.0%})" if case.kind == "one host" else case.kind
        effect = f"{case.effect:.0%}" if case.planted else "–"
        yield (
            f"| {kind} | {case.devices:,} | {case.planted} | {effect} | {' | '.join(rates)} | {proportion:.2%} "
            f"({false:.0f} of {flags:.0f}) | {1000 * healthy / well:.2g} of 1,000 |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=20)
    given = parser.parse_args()
    for line in table(given.seed, given.trials):
        print(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
