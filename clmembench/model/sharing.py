"""What a record of `cache_sharing` holds: numbers of the paths, and the order of the walks that it times."""

from __future__ import annotations

PATH_CODES = {"global": 0, "readonly": 1, "image1d_buffer": 2, "constant": 3, "constant_array": 4}  # of cache_sharing.cl
IDLE_CODE = 5
SHARING_BENCHMARK = "cache_sharing"
FIT_LAPS = 6  # over each set of question fit; the last lap counts: with random victims it takes some until a set stays
BRACKETS = 2  # walks of no step at the beginning of a launch: what reading the counter costs
# question paths: laps over the owner's set ("first", "warm_...", "after_..."), and what is visited between them
LAPS = ("lap",) * 4  # until the set is back
OWN_WALK = ("bracket", "bracket_again", "first", *LAPS, "warm_own", "own", "after_own")
OTHER_WALK = (*LAPS, "warm_other", "other", "after_other")
IDLE_WALK = (*LAPS, "warm_idle", "idle", "after_idle")
WALKS = (*OWN_WALK, *OTHER_WALK, *IDLE_WALK)
# where both paths reach the owner's addresses: evicted on its own path, then loaded on the other one
SAME_WALKS = (*LAPS, "warm_same", "own", "same", "after_same")
