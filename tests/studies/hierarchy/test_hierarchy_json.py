"""A hierarchy as JSON: every key everywhere, and nothing that JSON has not."""

import json
import math

import numpy as np

from clmembench.model import CacheLevel, Finding, Hierarchy, TlbLevel
from clmembench.report import render
from clmembench.studies.hierarchy.views import hierarchy_json

SHARED = Finding("local_with_first_cache", "shared", None, None, "", "ok", "sets that stay", ("cache_sharing:2:0",))
PARTS = {"value", "low", "high", "unit", "status", "method", "evidence", "reason"}


def size(value=16384.0, low=16384, high=math.inf):
    return Finding("size_bytes", value, low, high, "B", "ok", "capacity", ("a", "b"))


def test_a_level_has_every_property_and_what_is_beyond():
    bits = Finding("set_bits", "7-11", None, None, "", "ok", "mapping", ("chase:3",))
    hierarchy = Hierarchy(levels=(CacheLevel("L1", "global", {"set_bits": bits, "size_bytes": size(np.int64(16384))}),))
    (level,) = json.loads(render.json_text(hierarchy_json.hierarchy_fields(hierarchy)))["levels"]
    assert (level.pop("name"), level.pop("space")) == ("L1", "global")
    assert list(level) == [*hierarchy_json.CACHE, "set_bits"]
    assert all(set(finding) == PARTS for finding in level.values())
    assert level["size_bytes"] == {
        "value": 16384, "low": 16384, "high": None, "unit": "B", "status": "ok", "method": "capacity",
        "evidence": ["a", "b"], "reason": "",
    }  # fmt: skip
    assert level["ways"]["status"] == "undetermined"
    assert level["ways"]["value"] is None
    assert level["ways"]["reason"]


def test_every_part_is_there_where_nothing_was_found():
    assert json.loads(render.json_text(hierarchy_json.hierarchy_fields(Hierarchy()))) == {
        "levels": [], "tlb": [], "local": {}, "constant": [], "image": [], "patterns": {}, "patterns_past": {}, "sharing": {},
        "notes": [],
    }  # fmt: skip


def test_tlb_local_patterns_and_notes():
    cycles = Finding("latency_cycles", 28.5, 28.0, 29.0, "cycles", "ok", "chase", ("chase:5",))
    hierarchy = Hierarchy(
        tlb=(TlbLevel("L1 TLB", {}),), local=CacheLevel("local", "local", {"latency_cycles": cycles}),
        patterns={"P1": cycles}, notes=("no images",), sharing={"local_with_first_cache": SHARED},
    )  # fmt: skip
    whole = json.loads(render.json_text(hierarchy_json.hierarchy_fields(hierarchy)))
    assert list(whole["tlb"][0]) == ["name", *hierarchy_json.TLB]
    assert whole["local"]["latency_cycles"]["value"] == whole["patterns"]["P1"]["value"] == 28.5
    assert "memory itself" in whole["local"]["size_bytes"]["reason"]
    assert whole["notes"] == ["no images"]
    assert set(whole["sharing"]["local_with_first_cache"]) == PARTS
    assert whole["sharing"]["local_with_first_cache"]["value"] == "shared"
