"""Build wheel and sdist, check them, and run them outside the checkout on each Python: python scripts/try_release.py.

It needs the extra `release` and, to install dependencies, a package index. --python names interpreters, --output a folder that
both archives are copied to. PIP_CONSTRAINT holds for what is installed. The exit code is 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHIPPED = {"clmembench": "clmembench", "cl_kernels": "clmembench/cl_kernels", "platforms": "clmembench/platforms"}
METADATA = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}  # of a wheel, in its folder .dist-info
RUN = "run --device 0 --suite quick --budget 30s -o run.jsonl"
COMMANDS = (
    "--version", "suites", "describe stream", "devices", RUN, "show run.jsonl --json", "report run.jsonl -o report.html",
    "report run.jsonl --beside all -f md", "infer --help",
)  # fmt: skip


def git(*words: str) -> str:
    """What git prints about the checkout."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S607


def shipped_files() -> set[str]:
    """The files of the repository that a wheel must hold, by their names in it."""
    folders = {path: path.partition("/")[0] for path in git("ls-files", *SHIPPED).splitlines()}
    return {SHIPPED[folder] + path.removeprefix(folder) for path, folder in folders.items()}


def wheel_faults(wheel: Path) -> Iterator[str]:
    """Files that a wheel lacks, and those that it should not have."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    metadata = {name for name in names if name.partition(".dist-info/")[2] in METADATA}
    yield from (f"{wheel.name} lacks {name}" for name in sorted(shipped_files() - names))
    yield from (f"{wheel.name} has {name} besides" for name in sorted(names - metadata - shipped_files()))


def sdist_faults(sdist: Path) -> Iterator[str]:
    """Files of the package that an sdist lacks, and those that git does not know."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    tracked = set(git("ls-files").splitlines())
    package = {path for path in tracked if path.partition("/")[0] in SHIPPED}
    yield from (f"{sdist.name} lacks {name}" for name in sorted(package - names))
    yield from (f"{sdist.name} has {name} besides" for name in sorted(names - tracked - {"PKG-INFO"}))


def build(folder: Path, *options: str) -> tuple[Path, Path]:
    """Wheel and sdist of the checkout. Without options the wheel is built from the sdist. Files have the commit's time."""
    variables = {"SOURCE_DATE_EPOCH": git("log", "-1", "--format=%ct").strip(), **os.environ}
    call: list[str | Path] = [sys.executable, "-m", "build", *options, "--outdir", folder, ROOT]
    subprocess.run(call, check=True, env=variables, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def pythons() -> list[str]:
    """The interpreters on PATH of the versions that the package's metadata names, those that start."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [
        line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith("Programming Language :: Python :: 3.")
    ]
    found = (shutil.which(f"python{version}") for version in versions)
    return [path for path in found if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0]


def try_archive(archive: Path, python: str, folder: Path) -> Iterator[str]:
    """Install an archive with PoCL in an empty environment and run commands in an empty folder. Yields what failed."""
    environment, work = folder / "venv", folder / "work"
    work.mkdir(parents=True)
    subprocess.run([python, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin/python", "-m", "pip", "install", "--quiet", f"{archive}[pocl]"], check=True)
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CLMEMBENCH", "VIRTUAL_ENV"))
    }
    variables["XDG_DATA_HOME"] = str(folder / "data")
    for command in COMMANDS:
        call: list[str | Path] = [environment / "bin/clmembench", *command.split()]
        done = subprocess.run(call, cwd=work, env=variables, capture_output=True, text=True)
        print(f"  {done.returncode}  clmembench {command}: {next(iter(done.stdout.splitlines()), '')[:90]}", flush=True)
        if done.returncode:
            yield f"{python}: clmembench {command} ends with {done.returncode}: {done.stderr.strip()[-300:]}"
    where: list[str | Path] = [environment / "bin/python", "-c", "import clmembench; print(clmembench.__file__)"]
    loaded = subprocess.run(where, cwd=work, env=variables, capture_output=True, text=True).stdout
    if not loaded.startswith(str(environment)):
        yield f"{python}: clmembench is loaded from {loaded.strip()}"


def main() -> int:
    """Do all of it, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="interpreter to try; repeatable; default: those on PATH")
    parser.add_argument("--output", type=Path, help="folder that wheel and sdist are copied to")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archives = wheel, sdist = build(folder / "dist")
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *archives], check=True)
        wrong = [*wheel_faults(wheel), *sdist_faults(sdist)]
        again = build(folder / "again", "--sdist", "--wheel")  # the wheel from the checkout
        wrong += [
            f"{one.name} differs when it is built again"
            for one, other in zip(archives, again, strict=True)
            if one.read_bytes() != other.read_bytes()
        ]
        if not wrong:
            print(f"{wheel.name} and {sdist.name}: {len(shipped_files())} files of the package; built twice: the same bytes")
        trials = [(wheel, python) for python in options.python or pythons()]
        trials += [(sdist, python) for _, python in trials[:1]]
        for number, (archive, python) in enumerate(trials):
            version = subprocess.run([python, "--version"], capture_output=True, text=True).stdout.strip()
            print(f"{archive.name} on {version} ({python})", flush=True)
            wrong += try_archive(archive.resolve(), python, folder / str(number))
        if options.output and not wrong:
            options.output.mkdir(parents=True, exist_ok=True)
            for archive in archives:
                shutil.copy(archive, options.output)
    print("\n".join(wrong) or "all is as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
