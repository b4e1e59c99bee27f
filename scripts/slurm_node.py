"""Starts Slurm on this host as a cluster of one node, and stops it: to try `fleet run --slurm` and ReFrame without a cluster.

    python scripts/slurm_node.py start /tmp/slurm && export SLURM_CONF=/tmp/slurm/slurm.conf && sinfo
    python scripts/slurm_node.py stop /tmp/slurm

Needs the programs of Debian's packages slurm-wlm and munge, and root. Everything is in the folder; no service of the system and
none of its files is used.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_LIMIT_S = 60.0
DAEMONS = ("slurmd", "slurmctld", "munged")  # in the order in which they are stopped
CONFIGURATION = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory_mib} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def start(folder: Path) -> None:
    """Start the daemons, and wait until the node takes jobs. Raises SystemExit where a program is missing or does not start."""
    missing = [name for name in DAEMONS if shutil.which(name, path=_path()) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} not found: apt-get install slurm-wlm munge")
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    memory_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            folder=folder, host=socket.gethostname().partition(".")[0], user=os.environ.get("USER", "root"), ports=_ports(2),
            cpus=os.cpu_count(), memory_mib=memory_mib * 9 // 10,
        )
    )  # fmt: skip
    files = {"socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    _run("munged", "--force", f"--key-file={key}", *(f"--{option}={folder}/munge.{name}" for option, name in files.items()))
    _run("slurmctld", "-f", str(folder / "slurm.conf"))
    _run("slurmd", "-f", str(folder / "slurm.conf"))
    deadline = time.monotonic() + START_LIMIT_S
    while (state := _state(folder)) != "idle":
        if time.monotonic() > deadline:
            sys.exit(f"the node is {state or 'unknown'} after {START_LIMIT_S:g} s: see {folder}/slurmctld.log and slurmd.log")
        time.sleep(0.5)
    print(f"export SLURM_CONF={folder}/slurm.conf")


def stop(folder: Path) -> None:
    """End the daemons and remove the folder."""
    for name in DAEMONS:
        file = folder / ("munge.pid" if name == "munged" else f"{name}.pid")
        if file.is_file():
            pid = int(file.read_text())
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + START_LIMIT_S
            while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
                time.sleep(0.1)
    shutil.rmtree(folder)


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _run(program: str, *arguments: str) -> None:
    done = subprocess.run([program, *arguments], env={**os.environ, "PATH": _path()}, check=False)
    if done.returncode:
        sys.exit(f"{program} did not start: exit code {done.returncode}")


def _state(folder: Path) -> str:
    command = ["sinfo", "--noheader", "--format=%t"]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()


def _ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def main() -> None:
    """Start or stop, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("start", "stop"))
    parser.add_argument("folder", type=Path, help="folder of the configuration, the logs and the state")
    given = parser.parse_args()
    {"start": start, "stop": stop}[given.action](given.folder.absolute())


if __name__ == "__main__":
    main()
