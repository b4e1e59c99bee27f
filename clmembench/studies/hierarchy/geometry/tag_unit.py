"""The unit that a tag stands for, from strides of three, five and seven times a power of two. Pure."""

from __future__ import annotations

from dataclasses import replace

from clmembench.model import Experiment
from clmembench.studies.hierarchy.probes.capacity_search import find_capacity
from clmembench.studies.hierarchy.probes.fill_unit import OTHER_LINE_BYTES, UnitSize
from clmembench.studies.hierarchy.probes.probing import LAP_NOISE_SIGMAS, MAX_DISTURBED_LINE_SHARE, CapacityBound, LevelProbe

ODD_MULTIPLES = (3, 5, 7)  # of a power of two
# Thresholds
MAX_COUNT_RELATIVE_DIFFERENCE = 0.04  # counts of places that differ by no more are one
COMPARED_OVERFLOW = 0.06  # relative: how far beyond what fits the misses of two strides are compared
MIN_SMALLEST_SHARE = 1.2  # of the tags of units twice as long, that fit where units are shorter: near 2, less of uneven sets
MIN_DISTURBED_SMALLEST_SHARE = 1.7  # the same where others take lines: those that they took of the count side by side add to it
MAX_MISS_SHARE_RATIO = 3  # of two strides' miss shares: what differs by no more has one cause


def find_tag_unit(
    probe: LevelProbe, unit: int, dense: CapacityBound, most_bytes: int, nearer: float = 0.0, odd: int = ODD_MULTIPLES[0]
) -> Experiment[tuple[UnitSize, CapacityBound]]:
    """The unit that a tag stands for, and how many tags there are. `dense` is how many places `unit` bytes apart fit, C bytes
    in all; `most_bytes` is the largest working set. `nearer`: latency of the level before (0: there is none).

    Places 3u apart with u a power of two: where a tag stands for 4u or more, no more than C / 3u of them fit, however lines
    fall into sets; where it stands for 2u or less, each is a line of its own and more fit. So the first u at which more fit
    tells 2u, if at u / 2 there were just C / 3u. At the first u it is u itself, or 2u where at 3u, 5u and 7u just half as
    many fit. Of a number of sets that three divides places 3u apart use a third, so that C / 3u fit whatever u is: where that
    goes on, 5u takes the place of 3u.
    """
    size, found, capacity = unit, dense, dense.fits * unit
    why = "the strides that would decide it are beyond the limit of memory"
    while size <= OTHER_LINE_BYTES and odd * capacity <= most_bytes:
        stride = odd * size
        found = yield from _capacity_at_odd_stride(_translated_less(probe, stride, unit), stride, capacity, odd)
        if found.over is None or not found.fits:
            busy = "" if found.calm else ", and the core was never left alone for long enough to tell of more"
            return UnitSize(None, f"{found.fits} places {stride} B apart still fit{busy}"), found
        # of more places than surely fit some may miss, which hides in the mean what a nearer level serves
        if nearer and size > unit and (yield from probe.is_served_nearer(max(1, capacity // stride), stride, nearer)):
            why = f"a nearer level holds {capacity // stride} places {stride} B apart itself"
            break
        ratio = found.fits * stride / capacity
        if ratio > 1 + MAX_COUNT_RELATIVE_DIFFERENCE:
            if size > unit:
                return unit_of_share(size, found.fits * 2 * size / capacity), found
            return (yield from _smallest_unit(probe, size, capacity, found.fits, odd)), found
        if ratio < 1 - MAX_COUNT_RELATIVE_DIFFERENCE / 2:
            return UnitSize(None, f"only {found.fits} places {stride} B apart fit: lines fall unevenly into sets"), found
        beyond = yield from _misses_beyond(probe, found.fits, stride)
        dense_beyond = yield from _misses_beyond(probe, dense.fits, unit)
        if beyond < dense_beyond / MAX_MISS_SHARE_RATIO:  # a few lines of an uneven set, not the capacity
            reason = f"places {stride} B apart begin to miss there for another reason: sets are filled unevenly"
            return UnitSize(None, reason), found
        size *= 2
    if odd == ODD_MULTIPLES[0] and size > unit and ODD_MULTIPLES[1] * capacity <= most_bytes:
        return (yield from find_tag_unit(probe, unit, dense, most_bytes, nearer, ODD_MULTIPLES[1]))
    return UnitSize(None, why), found


def unit_of_share(size: int, share: float) -> UnitSize:
    """Twice `size`, whose tags fill this share of what fits side by side, unless those are more tags than there would be."""
    if share > 1 + MAX_DISTURBED_LINE_SHARE:
        return UnitSize(None, f"{share:.3g} times as many tags of {2 * size} B fit at an odd stride as side by side")
    return UnitSize(2 * size)


def _smallest_unit(probe: LevelProbe, size: int, capacity: int, fits: int, odd: int) -> Experiment[UnitSize]:
    """The unit where more than C / 3u places fit at the first u, `size`: u or 2u, by strides of 5u and 7u. `fits`: places that
    fit at `odd` times u."""
    # uneven sets only lower a count: the largest is nearest to how many lines there are
    shares = [fits * 2 * size / capacity]
    for other in (one for one in ODD_MULTIPLES if one > odd):
        less = _translated_less(probe, other * size, size)
        found = yield from _capacity_at_odd_stride(less, other * size, capacity, odd)
        shares.append(found.fits * 2 * size / capacity)
    most = max(shares)
    # others that take lines at any time make what fits side by side less than what the odd strides are held against
    disturbed = probe.asked.shared or probe.asked.restless
    slack = MAX_DISTURBED_LINE_SHARE if disturbed else MAX_COUNT_RELATIVE_DIFFERENCE
    if most > (MIN_DISTURBED_SMALLEST_SHARE if disturbed else MIN_SMALLEST_SHARE):
        return UnitSize(size)
    near = sum(most - share < slack for share in shares)
    if near > 1 and abs(most - 1) < slack:
        return UnitSize(2 * size)
    return UnitSize(None, f"the numbers of places that fit at strides of 3, 5 and 7 times {size} B suit no length of a line")


def _translated_less(probe: LevelProbe, stride: int, unit: int) -> LevelProbe:
    """The probe for a longer stride, at which each page's translation is paid for fewer places."""
    return replace(probe, contrast=replace(probe.contrast, extra=probe.contrast.extra * stride / unit))


def _misses_beyond(probe: LevelProbe, fitting: int, stride: int) -> Experiment[float]:
    """The share of accesses that miss a little beyond what fits."""
    share = yield from probe.misses(int((1 + COMPARED_OVERFLOW) * fitting) + 1, stride)
    return max(0.0, share) if share is not None else 0.0


def _capacity_at_odd_stride(probe: LevelProbe, stride: int, capacity: int, most: int) -> Experiment[CapacityBound]:
    """How many places at an odd stride fit. Translation is paid more often at longer strides, so a hit costs as much as in a
    lap that surely fits there. `most`: times as many places as the capacity has room for, that may fit."""
    contrast, least = probe.contrast, max(1, capacity // stride)
    base = yield from probe.mean(max(1, 2 * least // 3), stride)
    more = base - contrast.hit if base is not None and base > contrast.hit + 2 * LAP_NOISE_SIGMAS * contrast.noise else 0.0
    here = replace(probe, contrast=replace(contrast, hit=contrast.hit + more, miss=contrast.miss + more))
    guesses = [least, most * least // 2, most * least]
    return (yield from find_capacity(here, stride, (most + 1) * least, guesses, MAX_COUNT_RELATIVE_DIFFERENCE / 4))
