"""clmembench: characterise any OpenCL device by micro-benchmarks, and say only what was measured.

For notebooks: `clmembench.read("runs/*.jsonl")` and `clmembench.headlines("runs/*.jsonl")` give pandas DataFrames, which
`clmembench.plots` draws.
"""

# No import here runs before the command line has taken the current folder out of sys.path: `python -m clmembench` runs this
# file first, and a file beside a downloaded run may be called typing.py.
TYPE_CHECKING = False  # type checkers take it to be true

if TYPE_CHECKING:
    from clmembench.report import plots as plots
    from clmembench.report.frame import read as read
    from clmembench.report.scorecard.scorecard import headlines as headlines

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`read`, `headlines` and `plots`, loaded when they are used: the command line starts without pandas."""
    if name == "read":
        from clmembench.report.frame import read

        return read
    if name == "headlines":
        from clmembench.report.scorecard.scorecard import headlines

        return headlines
    if name == "plots":
        from clmembench.report import plots

        return plots
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
