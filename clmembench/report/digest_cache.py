"""Digests kept beside the runs that they are of, so that a second report over many runs need not read and derive them again.

A digest is taken only for the same content of the run, by the same revision of this program, and where this user's own key
signed it: what came with a downloaded folder is passed over. Where nothing can be kept, nothing is, and that is no error.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmembench.results import content_hash, jsonl, limits
from clmembench.sanitize import read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FOLDER = ".clmembench-cache"
KEY_BYTES = 32
SIGNATURE = 64  # letters of one, before its line's end


def user_key() -> bytes | None:
    """This user's key, made where there is none yet; None where none can be kept, or others may read it."""
    try:
        from platformdirs import user_data_path

        path = user_data_path("clmembench", appauthor=False) / "digest.key"
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
        about = path.stat()
        key = read_regular(path, KEY_BYTES)
    except (OSError, ValueError):
        return None
    own = about.st_uid == os.geteuid() and not stat.S_IMODE(about.st_mode) & 0o077
    return key if own and len(key) == KEY_BYTES else None


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the digest of one content is kept."""

    path: Path
    run: Path
    content: str
    key: bytes

    def read(self, kind: type) -> Any:
        """The digest, of that dataclass; None where there is none that can be taken."""
        try:
            kept = read_regular(self.path, SIGNATURE + 1 + limits.LINE_BYTES)
            text = kept[SIGNATURE + 1 :]
            if not hmac.compare_digest(kept[:SIGNATURE], self._signature(text)):
                return None
            limits.check_line(text)
            return _adapter(kind).validate_json(text, strict=True)
        except (OSError, ValueError):
            return None

    def write(self, digest: object) -> None:
        """Keep a digest, unless its run has changed since or the folder cannot be written."""
        try:
            text = jsonl.encode(digest).encode()
            limits.check_line(text)
            if content_hash.of_file(self.run) != self.content or self.path.parent.is_symlink():
                return
            self.path.parent.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError), (self.path.parent / ".gitignore").open("x", encoding="utf-8") as ignore:
                ignore.write("*\n")
            with tempfile.NamedTemporaryFile(dir=self.path.parent, suffix=".part", delete=False) as file:
                try:
                    file.write(self._signature(text) + b"\n" + text)
                    file.close()
                    Path(file.name).replace(self.path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except (OSError, ValueError):
            return

    def _signature(self, text: bytes) -> bytes:
        signed = f"{_revision()}\n{self.content}\n".encode() + text
        return hmac.new(self.key, signed, hashlib.sha256).hexdigest().encode()


def entry(run: Path, key: bytes | None) -> Entry | None:
    """Where the digest of a run, as it is now, is kept; None where it is no regular file, or there is no key."""
    if key is None:
        return None
    try:
        content = content_hash.of_file(run)
    except OSError:
        return None
    return Entry(run.parent / FOLDER / f"{content.removeprefix('sha256:')}.json", run, content, key)


def _revision() -> str:
    """Of what makes a digest of a run: this program, and the library that it takes medians with."""
    import numpy as np

    return f"{content_hash.of_sources()} numpy {np.__version__}"


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
