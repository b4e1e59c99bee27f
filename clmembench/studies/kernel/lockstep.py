"""How often sub-groups execute what their work-items do, by the branches that each work-item took. Pure.

Work-items of a sub-group execute an instruction together where they are in the same round of all loops around it: those that
leave a branch or a loop earlier wait where the ways meet (immediate post-dominators; Fung et al. 2007). Loops are found among
the conditional branches alone: a loop's first branch is on every way to its others (Aho, Lam, Sethi & Ullman 2006, 9.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np

from clmembench.studies.kernel import program
from clmembench.studies.kernel.requests import Branches, Integers, joined

MAX_JOINED = 1 << 31
Ways = Mapping[int, Set[int]]  # from a branch the branches that come next, or before


def lanes(branches: Branches, texts: Mapping[int, str], group_items: int, width: int) -> dict[int, float]:
    """Lanes of sub-groups that are issued for each work-item that executes an instruction, by its number, as far as branches
    around it are known."""
    if not len(branches):
        return {}
    order = np.argsort(branches.item, kind="stable")
    item, node, target = branches.item[order], branches.instruction[order], branches.target[order]
    sub_group = branches.sub_groups(group_items, width)[order]
    follows = np.append(item[1:] == item[:-1], False)
    after = np.where(follows, np.append(node[1:], -1), -1)
    here, left = np.zeros_like(node), np.zeros_like(node)
    for header, body in _loops(node, after, np.append(True, ~follows[:-1])).items():
        inside = np.isin(node, sorted(body))
        starts = inside & np.append(True, ~(inside[:-1] & follows[:-1]))
        visits = np.cumsum(node == header)
        before = np.maximum.accumulate(np.where(starts, visits - (node == header), 0))
        turn = np.where(inside, visits - before, 0)
        here = _packed(joined(here, turn))
        left = _packed(joined(left, np.where(inside & np.isin(after, sorted(body)), turn, 0)))
    ends, begins = _issued(node, joined(sub_group, here), width), _issued(target, joined(sub_group, left), width)
    return _by_instruction(texts, ends, begins)


def _packed(numbers: Integers) -> Integers:
    """Numbers that tell the same elements apart, small enough to be joined with others."""
    return numbers if numbers.max() < MAX_JOINED else np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def _issued(number: Integers, turn: Integers, width: int) -> dict[int, float]:
    """Lanes issued for each execution of a number; executions of a sub-group in the same turn are one."""
    numbers, of, times = np.unique(number, return_inverse=True, return_counts=True)
    issued = np.bincount(np.unique(joined(_packed(turn), of)) % len(numbers), minlength=len(numbers))
    return {int(one): float(width * a / b) for one, a, b in zip(numbers, issued, times, strict=True)}


def _by_instruction(texts: Mapping[int, str], ends: Mapping[int, float], begins: Mapping[int, float]) -> dict[int, float]:
    """Each instruction has what the branch at the end of its block has, or else the ways to its block."""
    found, block = dict[int, float](), list[int]()
    for number in sorted(texts):
        block.append(number)
        if program.opcode(texts[number]) in ("br", "switch", "ret"):
            known = ends.get(number) or begins.get(block[0])
            found |= dict.fromkeys(block, max(1.0, known)) if known else {}
            block = []
    return found


def _loops(node: Integers, after: Integers, first: np.ndarray) -> dict[int, set[int]]:
    """The branches of each loop by its first one, those around others first."""
    last = int(node.max()) + 1
    forward: dict[int, set[int]] = {one: set() for one in np.flatnonzero(np.bincount(node)).tolist()}
    back: dict[int, set[int]] = {one: set() for one in forward}
    pairs = np.unique((node * last + after)[after >= 0]).tolist()
    for one, other in (divmod(pair, last) for pair in pairs):
        forward[one].add(other)
        back[other].add(one)
    above = _dominators(back, set(np.unique(node[first]).tolist()))
    found = dict[int, set[int]]()
    for one, others in forward.items():
        for header in others & above[one]:
            body, open_nodes = found.setdefault(header, {header}), [one]
            while open_nodes:
                now = open_nodes.pop()
                if now not in body:
                    body.add(now)
                    open_nodes += back[now]
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _dominators(back: Ways, roots: Set[int]) -> dict[int, set[int]]:
    """The branches on every way to each, with itself."""
    above = {one: set(back) for one in back}
    changed = True
    while changed:
        changed = False
        for one in back:
            ways = [above[other] for other in back[one]] + [set[int]()] * (one in roots)
            now = {one}.union(set.intersection(*ways) if ways else ())
            changed |= now != above[one]
            above[one] = now
    return above
