"""What a set may hold where its victims are drawn, with probabilities: the states of a forward filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clmembench.model import Array

# Thresholds and limits, each with its reason
WRONG_FLAG_PROBABILITY = 0.003  # of accesses: share of wrong flags, outliers that look like misses
MAX_STATES = 256  # the likeliest states are kept: the result is a lower bound, and close
MIN_STATE_PROBABILITY = 1e-9  # of the likeliest state: rarer states are dropped
MAX_REMEMBERED_ENTRIES = 1_000_000  # of states that follow on others, for the next fit: some 50 MB


class _Step:
    """What an access of a line makes of some states, whatever their probabilities: those that hit stay as they are (`kept`),
    each other one is followed by one state for each way that may give up its line."""

    def __init__(self, states: _States, line: int) -> None:
        held, keys = states.held, states.known.keys
        count, ways = held.shape
        self.line = line
        self.hit = (held == line).nonzero()[0]  # a line is in one way at most
        self.did_hit = np.zeros(count, dtype=bool)
        self.did_hit[self.hit] = True
        self.factors: dict[bool, Array] = {}
        missed = (~self.did_hit).nonzero()[0]
        self.stays = missed.size == 0
        if self.stays:
            return
        self.kept = self.hit.size
        full = held.take(missed, axis=0)
        self.free = bool((full[0] < 0).any())  # nothing is replaced
        row = keys[line]  # one key for all ways where they are alike
        if self.free:
            at = int(full[0].argmin())  # -1 is the least
            self.parents = np.concatenate((self.hit, missed))
            self.way = np.full(missed.size, at)
            change = row[at if row.size > 1 else 0]
        else:
            self.parents = np.concatenate((self.hit, missed.repeat(ways)))
            way = np.empty(full.shape, dtype=np.intp)
            way[:] = np.arange(ways)
            self.way = way.ravel()
            old = full if row.size == 1 else full * row.size + way
            change = (row - keys.ravel().take(old)).ravel()
        code = states.code.take(self.parents)
        code[self.kept :] += change
        # one state for each code, with all that leads to it
        order = code.argsort(kind="stable")
        ordered = code.take(order)
        begins = np.ones(code.size, dtype=bool)
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        self.into = np.empty(code.size, dtype=np.intp)
        self.into[order] = begins.cumsum() - 1
        self.first = order[begins]
        self.code = ordered[begins]
        self.followers: dict[bytes, _States] = {}

    def weights(self, hit: bool) -> Array:
        """Of each state, how likely the flag is that was seen."""
        found = self.factors.get(hit)
        if found is None:
            right = self.did_hit if hit else ~self.did_hit
            found = self.factors[hit] = np.where(right, 1 - WRONG_FLAG_PROBABILITY, WRONG_FLAG_PROBABILITY)
        return found

    def held(self, held: Array, first: Array) -> Array:
        """What some of the states that follow hold, of what all did before; `first` is where each is among `parents`."""
        found = held.take(self.parents.take(first), axis=0)
        new = (first >= self.kept).nonzero()[0]
        found[new, self.way.take(first.take(new) - self.kept)] = self.line
        return found


class _States:
    """What a set may hold: `held` of shape (states, ways), -1 where a way is free; `code` is a hash: equal states have equal
    ones."""

    def __init__(self, known: _KnownStates, held: Array, code: Array) -> None:
        self.known, self.held, self.code = known, held, code
        self.steps: dict[int, _Step] = {}
        self.remembered = False  # whether others lead here, so that it will be asked again

    def step(self, line: int) -> _Step:
        found = self.steps.get(line)
        if found is None:
            found = self.steps[line] = _Step(self, line)
            if self.remembered:
                self.known.left -= 1 if found.stays else found.parents.size
        return found

    def after(self, step: _Step, best: Array | None) -> _States:
        """The states that stay of those that follow; None: all."""
        key = b"" if best is None else best.tobytes()
        found = step.followers.get(key)
        if found is None:
            found = self._after(step, best)
            if self.remembered and found.remembered:
                step.followers[key] = found
        return found

    def _after(self, step: _Step, best: Array | None) -> _States:
        first, code = (step.first, step.code) if best is None else (step.first.take(best), step.code.take(best))
        known = self.known
        if code.size == MAX_STATES:  # the likeliest of more are hardly ever the same again
            return _States(known, step.held(self.held, first), code)
        # ways that are alike may hold the same in another order
        held = step.held(self.held, first) if known.alike else None
        key = code.tobytes() + (b"" if held is None else held.tobytes())
        found = known.states.get(key)
        if found is None:
            found = _States(known, step.held(self.held, first) if held is None else held, code)
            if known.left > 0:
                found.remembered = True
                known.states[key] = found
        return found


class _KnownStates:
    """All states that followed on an empty set of so many ways, `alike` or not, and lines; hashes are sums of `keys`."""

    def __init__(self, ways: int, alike: bool, lines: int) -> None:
        self.keys = np.random.default_rng(1).integers(1, 1 << 62, (lines + 1, 1 if alike else ways), dtype=np.int64)
        self.alike = alike
        self.left = MAX_REMEMBERED_ENTRIES
        self.states: dict[bytes, _States] = {}
        self.empty = _States(self, np.full((1, ways), -1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        self.empty.remembered = True


class VictimStates:
    """The states that sets may take, for fits of other probabilities to the same lines: they take the same states again."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, bool, int], _KnownStates] = {}

    def empty(self, ways: int, alike: bool, lines: int) -> _States:
        key = ways, alike, lines
        if key not in self.known:
            self.known[key] = _KnownStates(*key)
        return self.known[key].empty


class StateFilter:
    """States with their probabilities."""

    def __init__(self, weights: Array, lines: Sequence[int], count: bool, known: VictimStates) -> None:
        self.weights = weights / weights.sum()
        self.ways = weights.size
        names, self.lines = np.unique(np.asarray(lines), return_inverse=True)
        self.states = known.empty(self.ways, bool(np.ptp(self.weights) < 1e-12), max(names.size, 1))
        self.share = np.ones(1)
        self.counts: Array | None = np.zeros((self.ways, 1)) if count else None

    def chance(self, line: int) -> float:
        """The probability that the access hits."""
        return float(self.share.take(self.states.step(line).hit).sum())

    def step(self, line: int, hit: bool | None) -> None:
        """Weigh the states with a flag, where it was seen, and let those that missed replace; the unlikely ones go."""
        step = self.states.step(line)
        share = self.share if hit is None else self.share * step.weights(hit)
        if step.stays:
            self.share = share / share.sum()
            return
        odds = share.take(step.parents)
        if not step.free:
            odds[step.kept :] *= self.weights.take(step.way)
        total = np.bincount(step.into, odds, step.code.size)
        likely = total > MIN_STATE_PROBABILITY * total.max()
        number = np.count_nonzero(likely)
        best = None if number == total.size else likely.nonzero()[0]
        if number > MAX_STATES:
            best = np.argpartition(total, -MAX_STATES)[-MAX_STATES:]
        if self.counts is not None:
            self.counts = self._counted(step, self.counts, odds, total, best)
        self.states = self.states.after(step, best)
        left = total if best is None else total.take(best)
        self.share = left / left.sum()

    @staticmethod
    def _counted(step: _Step, counts: Array, odds: Array, total: Array, best: Array | None) -> Array:
        """The expected replacements of each way in the states that stay; shape (ways, states)."""
        parents, into, way, kept = step.parents, step.into, step.way, step.kept
        if best is not None:
            place = np.full(total.size, -1, dtype=np.intp)
            place[best] = np.arange(best.size)
            into = place.take(into)
            stays = (into >= 0).nonzero()[0]
            parents, into, odds = parents.take(stays), into.take(stays), odds.take(stays)
            kept = int(stays.searchsorted(kept))
            way = way.take(stays[kept:] - step.kept)
            total = total.take(best)
        counted = counts.take(parents, axis=1)
        if not step.free:
            counted[way, np.arange(kept, into.size)] += 1
        counted *= odds
        merged: Array = np.array([np.bincount(into, one, total.size) for one in counted])
        merged /= np.maximum(total, 1e-300)
        return merged

    def victims(self) -> Array:
        return np.zeros(self.ways) if self.counts is None else self.share @ np.ascontiguousarray(self.counts.T)
