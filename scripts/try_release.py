"""Build wheel and sdist, check them, and run the wheel outside the checkout on each Python: python scripts/try_release.py.

It needs the extra `release` and, to install dependencies, a package index. --python names interpreters, --output a folder that
both archives are copied to. The exit code is 1 where anything is not as it should be.
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
RUN = "run -d 0 -b stream -a op=triad -a dtype=float --size 8MiB --budget 2m -o run.jsonl"
COMMANDS = (
    "--version", "suites", "describe stream", "devices", RUN, "show run.jsonl --json", "report run.jsonl -o report.html",
    "report run.jsonl --beside all -f md", "infer --help",
)  # fmt: skip


def shipped_files() -> set[str]:
    """The files of the repository that a wheel must hold, by their names in it."""
    listed = subprocess.run(["git", "ls-files", *SHIPPED], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    folders = {path: path.partition("/")[0] for path in listed.stdout.splitlines()}
    return {SHIPPED[folder] + path.removeprefix(folder) for path, folder in folders.items()}


def missing_from_wheel(wheel: Path) -> set[str]:
    """The files that a wheel lacks."""
    with zipfile.ZipFile(wheel) as archive:
        return shipped_files() - set(archive.namelist())


def missing_from_sdist(sdist: Path) -> set[str]:
    """The files that an sdist lacks, by their names in a wheel."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    inside = {SHIPPED[folder] + name.removeprefix(folder) for name in names if (folder := name.partition("/")[0]) in SHIPPED}
    return shipped_files() - inside


def pythons() -> list[str]:
    """The interpreters on PATH of the versions that the package's metadata names, those that start."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [
        line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith("Programming Language :: Python :: 3.")
    ]
    found = (shutil.which(f"python{version}") for version in versions)
    return [path for path in found if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0]


def try_wheel(wheel: Path, python: str, folder: Path) -> Iterator[str]:
    """Install the wheel with PoCL in an empty environment and run commands in an empty folder. Yields what failed."""
    environment, work = folder / "venv", folder / "work"
    work.mkdir()
    subprocess.run([python, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin/python", "-m", "pip", "install", "--quiet", f"{wheel}[pocl]"], check=True)
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
        # the wheel is built from the sdist, so that this holds what the wheel needs
        subprocess.run(
            [sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT], check=True, stdout=subprocess.DEVNULL
        )
        (wheel,), (sdist,) = folder.glob("dist/*.whl"), folder.glob("dist/*.tar.gz")
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
        wrong = [f"{wheel.name} lacks {path}" for path in sorted(missing_from_wheel(wheel))]
        wrong += [f"{sdist.name} lacks {path}" for path in sorted(missing_from_sdist(sdist))]
        print(f"{wheel.name} and {sdist.name}: {len(shipped_files())} files of the package in each" if not wrong else "")
        for number, python in enumerate(options.python or pythons()):
            version = subprocess.run([python, "--version"], capture_output=True, text=True).stdout.strip()
            print(f"{version} ({python})", flush=True)
            (folder / str(number)).mkdir()
            wrong += try_wheel(wheel.resolve(), python, folder / str(number))
        if options.output and not wrong:
            options.output.mkdir(parents=True, exist_ok=True)
            for archive in (wheel, sdist):
                shutil.copy(archive, options.output)
    print("\n".join(wrong) or "all is as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
