"""Tasks of development: `nox -s test lint docs bench`. Options after `--` go to the program that the task runs."""

import nox

nox.options.sessions = ["test", "lint"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def test(session: nox.Session) -> None:
    """The fast tests, or those that are named: nox -s test -- tests/analysis."""
    session.install("-e", ".[test]")
    session.run("pytest", "-q", *(session.posargs or ("-n", "auto")))


@nox.session
def lint(session: nox.Session) -> None:
    """Linter, formatter and type checker, as .ci/run calls them."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in site/."""
    session.install("-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks of the tool itself: nox -s bench -- -o tool.json."""
    session.install("-e", ".", "pyperf")
    session.run("python", "benchmarks/tool.py", *session.posargs)
