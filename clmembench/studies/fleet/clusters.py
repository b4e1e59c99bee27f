"""The workers of a fleet: those of a scheduler that runs, jobs of Slurm, or processes of this host."""

from __future__ import annotations

import ipaddress
import logging
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from clmembench.host import failures, processes

if TYPE_CHECKING:
    from distributed import Client

SETTINGS = {
    "distributed.scheduler.allowed-failures": 1,  # deaths of workers that had a task before it fails
    "distributed.comm.timeouts.connect": "10s",
    "distributed.admin.tick.limit": "1h",  # no warnings of slow event loops
}
PLAIN = ["dask", "msgpack", "error"]  # what the client takes of a worker's answers: never a pickle


class WorkersError(Exception):
    """The workers cannot be reached or started; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Workers:
    """How a fleet gets its workers: from the scheduler at an address, from `count` jobs of Slurm with these further options of
    sbatch, or as `count` processes of this host."""

    kind: Literal["scheduler", "slurm", "local"]
    address: str = ""
    count: int = 1
    options: tuple[str, ...] = ()
    is_insecure: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Workers:
        """As a journal keeps it."""
        return cls(**{**stored, "options": tuple(stored["options"])})

    def check(self) -> None:
        """Raises WorkersError for an address without encryption off this host."""
        if self.kind != "scheduler":
            return
        parts = urlsplit(self.address)
        if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
            raise WorkersError(f"--scheduler {self.address}: give tls://HOST:PORT, or tcp://127.0.0.1:PORT on this host")
        if parts.scheme == "tcp" and not _is_loopback(parts.hostname) and not self.is_insecure:
            raise WorkersError(
                f"--scheduler {self.address}: anyone on the network could run commands on the workers: start scheduler and "
                "workers with TLS and give tls://HOST:PORT, or add --insecure"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def connected(workers: Workers, folder: Path) -> Iterator[Client]:
    """A client of the workers, which start in the meantime; workers that were started for it end with it. Slurm's jobs find
    their certificates in the folder, and write their output there. Raises WorkersError."""
    import dask
    from distributed import Client

    workers.check()
    if workers.address.startswith("tls://") and not dask.config.get("distributed.comm.tls.ca-file"):
        raise WorkersError(f"{workers.address} needs certificates: set Dask's distributed.comm.tls, see docs/fleet.md")
    with ExitStack() as stack:
        stack.callback(logging.disable, logging.NOTSET)
        logging.disable(logging.ERROR)  # Dask logs the end of every connection
        stack.enter_context(dask.config.set(SETTINGS))
        try:
            source = workers.address if workers.kind == "scheduler" else stack.enter_context(_cluster(workers, folder))
            yield stack.enter_context(Client(source, deserializers=PLAIN, set_as_default=False))
        except OSError as error:
            if error.filename is not None or workers.kind != "scheduler":
                raise
            remedy = "start it with `dask scheduler`, and workers with `dask worker`"
            raise WorkersError(f"no scheduler answers at {workers.address} ({error}): {remedy}") from error


def _cluster(workers: Workers, folder: Path) -> Any:
    """A cluster that is started here: its scheduler is in this process. Its parts know each other by certificates of their own,
    since other users of this host could connect to it too."""
    from distributed.security import Security

    own: dict[str, Any] = {"security": Security.temporary(), "protocol": "tls://"}
    if workers.kind == "local":
        from distributed import LocalCluster

        with processes.inherited_environment():
            return LocalCluster(
                n_workers=workers.count, threads_per_worker=1, memory_limit=0, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, preload=["clmembench.studies.fleet.worker"],
                **own,
            )  # fmt: skip
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise WorkersError("sbatch is not found: run it where jobs of Slurm are submitted, or name other workers")
    handler = signal.getsignal(signal.SIGINT)
    from dask_jobqueue import SLURMCluster

    signal.signal(signal.SIGINT, handler)  # which the import above replaces by the silent end of the process
    folder = folder.absolute()
    folder.mkdir(mode=0o700, exist_ok=True)
    cluster = SLURMCluster(
        cores=1, processes=1, memory="4GiB", job_directives_skip=["--mem=", "--cpus-per-task"],
        job_extra_directives=["--exclusive", "--mem=0", *workers.options], python=sys.executable,
        shared_temp_directory=str(folder), log_directory=str(folder),
        scheduler_options={"dashboard_address": "127.0.0.1:0"}, silence_logs="error", worker_extra_args=["--no-dashboard"],
        job_script_prologue=["export DASK_LOGGING__DISTRIBUTED=warning"], **own,
    )  # fmt: skip
    tried = subprocess.run([sbatch, "--test-only"], input=cluster.job_script(), capture_output=True, text=True, check=False)
    if tried.returncode:  # otherwise jobs that cannot be submitted would be waited for
        cluster.close()
        raise WorkersError(f"sbatch refuses the job{failures.last_words(tried.stderr)}")
    cluster.scale(jobs=workers.count)
    return cluster
