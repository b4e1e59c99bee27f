"""Which address bits choose a cache's set: parities of bits, by linear algebra over GF(2) from lines of one set. Pure."""

from __future__ import annotations

from collections.abc import Sequence

SetIndexBits = tuple[tuple[int, ...], ...]  # for each bit of a set's number the address bits whose parity it is


def difference_basis(numbers: Sequence[int]) -> list[int]:
    """A basis over GF(2) of all differences (exclusive or) between numbers, in reduced form, highest bit first.

    Where sets are chosen by parities of address bits, two lines are in one set exactly if their difference has parity 0 in
    each; so lines that miss together span (part of) the differences that do not change the set."""
    basis: list[int] = []
    for number in numbers:
        difference = number ^ numbers[0]
        for row in basis:
            difference = min(difference, difference ^ row)
        if difference:
            basis = [min(row, row ^ difference) for row in basis] + [difference]
            basis.sort(reverse=True)
    return basis


def free_parities(basis: Sequence[int], width: int) -> SetIndexBits:
    """The bits of numbers below 2^width, alone or combined into parities, that a basis of `difference_basis` leaves free.

    One tuple of bit numbers for each bit of the set's number: n tuples give at most 2^n sets."""
    tops = [row.bit_length() - 1 for row in basis]
    free = [bit for bit in range(width) if bit not in tops]
    return tuple((bit, *sorted(top for top, row in zip(tops, basis, strict=True) if row >> bit & 1)) for bit in free)


def set_number(address: int, bits: Sequence[Sequence[int]]) -> int:
    """The set's number: bit i of it is the parity of the address bits in `bits[i]`."""
    return sum((sum(address >> b & 1 for b in group) & 1) << i for i, group in enumerate(bits))


def format_set_bits(bits: Sequence[Sequence[int]]) -> str:
    """Bits as a reader writes them: 7-11, or 9-11 with 7^13 and 8^14."""
    single = [group[0] for group in bits if len(group) == 1]
    runs: list[list[int]] = []
    for bit in sorted(single):
        if runs and bit == runs[-1][-1] + 1:
            runs[-1].append(bit)
        else:
            runs.append([bit])
    text = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ", ".join([*text, *("^".join(map(str, group)) for group in bits if len(group) > 1)])
