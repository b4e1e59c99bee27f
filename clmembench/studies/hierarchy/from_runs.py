"""The memory hierarchy of stored runs: runs with evidence of one, and checks between several runs of one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clmembench.gates import whole
from clmembench.model import CHASE_BENCHMARK, Hierarchy, Run
from clmembench.report import frame
from clmembench.studies.hierarchy import consistency
from clmembench.studies.hierarchy import plan as hierarchy
from clmembench.studies.hierarchy.views.section import HierarchyFindings


def infer_hierarchy(run: Run) -> Hierarchy:
    """The hierarchy inferred from a run's chases, checked against the run's other measurements."""
    (found,) = consistency.across([run], [hierarchy.infer_stored(run).hierarchy])[1]
    assert found is not None
    return found


def hierarchy_of(run: Run) -> HierarchyFindings | None:
    """The findings on a run's memory hierarchy for a report; None for a run without chases."""
    if not run.has(CHASE_BENCHMARK):
        return None
    found = hierarchy.infer_stored(run)
    return HierarchyFindings(found.hierarchy, found.regions, hierarchy.stored_classic(run))


def check_together(
    runs: Sequence[Run], found: Sequence[HierarchyFindings | None]
) -> tuple[list[Run], list[HierarchyFindings | None]]:
    """Runs and their hierarchies, with the runs of one device checked against each other. Raises SpecError if two spec sheets
    match a device, or one is damaged."""
    if not any(found):
        return list(runs), list(found)
    judged = [whole.judged_run(run, frame.sheet_of(run)) for run in runs]
    judged, hierarchies = consistency.across(judged, [None if one is None else one.hierarchy for one in found])
    pairs = zip(found, hierarchies, strict=True)
    return judged, [None if one is None or own is None else replace(one, hierarchy=own) for one, own in pairs]


def findings(runs: Sequence[Run]) -> tuple[list[Run], list[HierarchyFindings | None]]:
    """The findings on the hierarchies of runs for a report, None for one without chases, and the runs with contradicting values
    marked."""
    return check_together(runs, list(map(hierarchy_of, runs)))
