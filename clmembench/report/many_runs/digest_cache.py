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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clmembench.results import line_limits, record_lines, whole_file
from clmembench.results.whole_file import remove_abandoned_parts, write_whole
from clmembench.sanitize import read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FOLDER = ".clmembench-cache"
KEY_BYTES = 32
SIGNATURE = 64  # letters of one, before its line's end


def user_key() -> bytes | None:
    """This user's key, made where there is none yet, or an empty file as a killed process may have left it; None where none can
    be kept, or others may read it."""
    try:
        from platformdirs import user_data_path

        path = user_data_path("clmembench", appauthor=False) / "digest.key"
        path.parent.mkdir(parents=True, exist_ok=True)
        if _is_empty(path):
            path.unlink(missing_ok=True)
        if not path.exists():
            with contextlib.suppress(FileExistsError):  # another process of this user made one
                write_whole(path, secrets.token_bytes(KEY_BYTES), mode=0o600)
        about = path.stat()
        key = read_regular(path, KEY_BYTES)
    except (OSError, ValueError):
        return None
    own = about.st_uid == os.geteuid() and not stat.S_IMODE(about.st_mode) & 0o077
    return key if own and len(key) == KEY_BYTES else None


def _is_empty(path: Path) -> bool:
    """Whether a regular file has no content. False where there is nothing."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(about.st_mode) and about.st_size == 0


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Where the digest of one content is kept."""

    path: Path
    run: Path
    content: str
    key: bytes

    def read(self, kind: type) -> Any:
        """The digest, of that dataclass; None where there is none that can be taken."""
        try:
            kept = read_regular(self.path, SIGNATURE + 1 + line_limits.MAX_LINE_BYTES)
            text = kept[SIGNATURE + 1 :]
            if not hmac.compare_digest(kept[:SIGNATURE], self._signature(text)):
                return None
            line_limits.check_line(text)
            return _adapter(kind).validate_json(text, strict=True)
        except (OSError, ValueError):
            return None

    def write(self, digest: object) -> None:
        """Keep a digest, unless its run has changed since or the folder cannot be written."""
        try:
            text = record_lines.encode(digest).encode()
            line_limits.check_line(text)
            if whole_file.hash_file(self.run) != self.content or self.path.parent.is_symlink():
                return
            self.path.parent.mkdir(exist_ok=True)
            with contextlib.suppress(FileExistsError):
                write_whole(self.path.parent / ".gitignore", "*\n", durable=False)
            _clean(self.path.parent)
            if self.path.is_symlink() or not self.path.is_file():  # what came with a downloaded folder is not written through
                self.path.unlink(missing_ok=True)
            write_whole(self.path, self._signature(text) + b"\n" + text, overwrite=True, durable=False)
        except (OSError, ValueError):
            return

    def _signature(self, text: bytes) -> bytes:
        signed = f"{_revision()}\n{self.content}\n".encode() + text
        return hmac.new(self.key, signed, hashlib.sha256).hexdigest().encode()


@cache
def _clean(folder: Path) -> None:
    """Remove, once in a process, what killed ones left in a cache."""
    remove_abandoned_parts(folder)


def entry(run: Path, key: bytes | None) -> CacheEntry | None:
    """Where the digest of a run, as it is now, is kept; None where it is no regular file, or there is no key."""
    if key is None:
        return None
    try:
        content = whole_file.hash_file(run)
    except OSError:
        return None
    return CacheEntry(run.parent / FOLDER / f"{content.removeprefix('sha256:')}.json", run, content, key)


def _revision() -> str:
    """Of what makes a digest of a run: this program, and the library that it takes medians with."""
    import numpy as np

    return f"{whole_file.hash_sources()} numpy {np.__version__}"


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
