"""Which way a metric is better is decided in one place."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import clmembench
from clmembench.model.metrics import gain, more_is_better, score, sign

ROOT = Path(clmembench.__file__).parent
POSITIVE = st.floats(1e-12, 1e12)


@given(POSITIVE, POSITIVE)
def test_every_form_prefers_the_same_value(a, b):
    for better in ("higher", "lower"):
        first = a > b if more_is_better(better) else a < b
        assert (sign(better) * a > sign(better) * b) == first
        assert not first or (score(a, better) >= score(b, better) and gain(a / b, better) >= 1)


def test_what_is_not_above_0_has_no_score_where_less_is_better():
    assert score(0.0, "lower") == score(-1.0, "lower") == 0.0


def test_no_other_module_compares_the_word():
    found = [path for path in ROOT.rglob("*.py") if re.search(r"[=!]= *[\"']higher[\"']", path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in found] == ["model/metrics.py"]
