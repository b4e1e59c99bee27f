"""`python -m clmembench` is the same as `clmembench`."""

import os
import sys
from collections import namedtuple


def main() -> None:
    """The entry point of both. Loading takes a moment, in which Ctrl-C ends it as later on, without a traceback. So does
    a host that has no more memory, files or processes, whenever that is."""
    try:
        _leave_current_folder()
        from clmembench.host import processes

        sys.unraisablehook = processes.interrupt_again
        from clmembench.cli import program
        from clmembench.host import failures

        program.main()
    except KeyboardInterrupt:
        print("clmembench: interrupted", file=sys.stderr)
        sys.exit(130)
    except (MemoryError, ImportError, OSError, RuntimeError) as error:
        reason = failures.scarcity_text(error)
        if reason is None:
            raise
        error.__traceback__ = None  # its frames hold what there was no memory for
        print(f"clmembench: {reason}", file=sys.stderr)
        sys.exit(1)
    finally:
        # CPython ends a process by SIGINT in place of its exit code where Ctrl-C came while a string was executed, as by the
        # decorator of a dataclass, although it was handled since. Executing another string, as here, clears that.
        namedtuple("Nothing", "")


def _leave_current_folder() -> None:
    """Import nothing from the folder that the user is in, unless PYTHONPATH names it: an empty entry there, as a path that was
    put together from nothing has, means that folder, in which a file of any name may lie."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        here = os.path.abspath("")  # noqa: PTH100 - modules that are not loaded yet might come from there
    except FileNotFoundError:  # deleted: nothing can come from there
        here = ""
    if "" in named and here not in named:
        sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]
    from clmembench.host.processes import ROOT

    if ROOT not in sys.path:  # the package itself may lie there: what lies beside it hides nothing of Python's own
        packages = [number for number, entry in enumerate(sys.path) if entry.endswith("-packages")]
        sys.path.insert(min(packages, default=len(sys.path)), ROOT)


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # where -m has put the current folder
    main()
