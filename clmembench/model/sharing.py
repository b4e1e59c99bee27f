"""What a record of `cache_sharing` holds: numbers of the paths, and the order of the walks that it times."""

from __future__ import annotations

PATH_CODES = {"global": 0, "readonly": 1, "image1d_buffer": 2, "constant": 3, "constant_array": 4}  # of cache_sharing.cl
IDLE_CODE = 5
SHARING_BENCHMARK = "cache_sharing"
FIT_LAPS = 3  # over each set of question fit, after two walks of no step; the last lap counts
BRACKETS = 2  # walks of no step at the beginning of a launch: what reading the counter costs
# question paths: laps over the owner's set ("first", "warm_...", "after_..."), and what is visited between them
OWN_WALK = ("bracket", "bracket_again", "first", "lap", "warm_own", "own", "after_own")
OTHER_WALK = ("lap", "lap", "warm_other", "other", "after_other")
IDLE_WALK = ("lap", "lap", "warm_idle", "idle", "after_idle")
WALKS = (*OWN_WALK, *OTHER_WALK, *IDLE_WALK)
# where both paths reach the owner's addresses: evicted on its own path, then loaded on the other one
SAME_WALKS = ("lap", "lap", "warm_same", "own", "same", "after_same")
