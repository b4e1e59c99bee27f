"""Gates: what was measured is held against itself, and a point that fails is `suspect`, with the gate's name and the reason."""

from clmembench.gates.point import DRIFT, judged
from clmembench.gates.whole import judged_run, peak_of

__all__ = ["DRIFT", "judged", "judged_run", "peak_of"]
