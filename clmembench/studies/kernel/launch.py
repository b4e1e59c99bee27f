"""A launch of a user's kernel: source, sizes and arguments, as the command line and files write them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from clmembench import sanitize
from clmembench.model import Array, Buffer, Device, Launch, Local
from clmembench.units import parse_bytes

SCALARS: Mapping[str, str] = {  # types of OpenCL C and their NumPy types
    "char": "int8", "uchar": "uint8", "short": "int16", "ushort": "uint16", "int": "int32", "uint": "uint32",
    "long": "int64", "ulong": "uint64", "half": "float16", "float": "float32", "double": "float64",
}  # fmt: skip
ARGUMENT = "buffer:SIZE, buffer:SIZE:random, local:SIZE, file:X.npy or TYPE:VALUE"
VECTOR = re.compile(r"([a-z]+)(2|3|4|8|16)")
INCLUDE = re.compile(r'^(\s*#\s*include\s*)"([^"\n]+)"', re.MULTILINE)
MAX_DIMENSIONS = 3
MAX_WORK_ITEMS = 1 << 63
DEFAULT_LOCAL = 256  # work-items of a work-group, where none are named
MAX_FILE_BYTES = 1 << 20  # of a file of a launch


class LaunchError(ValueError):
    """A launch cannot be meant as it is written; the message says which part and what it may be."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of the kernel `kernel` of the file `source`, whose arguments are texts such as buffer:4MiB (see ARGUMENT)."""

    source: Path
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    arguments: tuple[str, ...]
    defines: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises LaunchError for sizes that no device can launch."""
        local = self.local_size or (1,) * len(self.global_size)
        if not 1 <= len(self.global_size) <= MAX_DIMENSIONS or len(local) != len(self.global_size):
            raise LaunchError("--global and --local have one to three numbers each, and equally many")
        if self.work_items >= MAX_WORK_ITEMS:
            raise LaunchError(f"--global: {self.work_items:,} work-items are more than any device launches")
        if min(*self.global_size, *local) < 1 or any(n % m for n, m in zip(self.global_size, local, strict=True)):
            raise LaunchError("--global must be multiples of --local, and both at least 1")

    @property
    def work_items(self) -> int:
        """The number of all work-items."""
        return prod(self.global_size)

    @property
    def work_groups(self) -> int:
        """The number of work-groups, of one work-item each where no size is given."""
        return self.work_items // prod(self.local_size or ())

    def params(self) -> dict[str, str]:
        """The launch as parameters of the benchmark `user_kernel`."""
        return {
            "file": str(self.source),
            "kernel": self.kernel,
            "global_size": shlex.join(map(str, self.global_size)),
            "local_size": shlex.join(map(str, self.local_size or ())),
            "arguments": shlex.join(self.arguments),
            "defines": shlex.join(f"{name}={value}" for name, value in self.defines.items()),
        }

    @classmethod
    def of_params(cls, params: Mapping[str, str]) -> KernelLaunch:
        """The launch of such parameters. Raises LaunchError."""
        local = tuple(map(int, shlex.split(params["local_size"])))
        return cls(
            Path(params["file"]),
            params["kernel"],
            tuple(map(int, shlex.split(params["global_size"]))),
            local or None,
            tuple(shlex.split(params["arguments"])),
            dict(one.split("=", 1) for one in shlex.split(params["defines"])),
        )


def argument(text: str, seed: int = 0) -> Array | np.generic | Local:
    """The content of an argument: bytes of a buffer, a scalar, or local memory. Random buffers hold floats from 0 to 1.
    Raises LaunchError."""
    kind, _, rest = text.partition(":")
    try:
        if kind == "local":
            return Local(parse_bytes(rest))
        if kind == "file":
            return np.ascontiguousarray(np.lib.format.open_memmap(rest, mode="r"))  # which takes no Python objects
        if kind == "buffer":
            size, _, content = rest.partition(":")
            if content not in ("", "zeros", "random"):
                raise ValueError(f"{content!r} is neither zeros nor random")
            nbytes = parse_bytes(size)
            if content == "random":
                return np.random.default_rng(seed).random(-(-nbytes // 4), np.float32).view(np.uint8)[:nbytes]
            return np.zeros(nbytes, np.uint8)
        return _number(kind, rest)
    except (KeyError, ValueError, OverflowError, OSError) as error:
        why = "" if isinstance(error, KeyError) else f" ({error})"
        raise LaunchError(f"--arg {text}: not {ARGUMENT}{why}") from error


def scalar_type(kind: str) -> tuple[np.dtype[Any], int]:
    """The NumPy type of a scalar or of a vector's elements, and the number of these. Raises KeyError."""
    vector = VECTOR.fullmatch(kind)
    return (np.dtype(SCALARS[vector[1]]), int(vector[2])) if vector else (np.dtype(SCALARS[kind]), 1)


def _number(kind: str, text: str) -> np.generic:
    """A scalar, or the bytes of a vector, of which one of three has the size of four."""
    dtype, count = scalar_type(kind)
    texts = text.split(",") if count > 1 else [text]
    if len(texts) != count:
        raise ValueError(f"{kind} has {count} values with commas")
    values = [dtype.type(float(one) if dtype.kind == "f" else int(one, 0)) for one in texts]
    return np.void(np.array([*values, *values[: count % 4 == 3]]).tobytes()) if count > 1 else values[0]


def default_local(global_size: Sequence[int]) -> tuple[int, ...]:
    """Work-groups of up to 256 neighbours that divide the launch."""
    first = next(n for n in range(min(DEFAULT_LOCAL, global_size[0]), 0, -1) if global_size[0] % n == 0)
    return (first, *[1] * (len(global_size) - 1))


def buffer_sizes(launch: KernelLaunch) -> dict[int, int]:
    """Bytes of each buffer, by its number from 1 in the order of arguments. Raises LaunchError."""
    buffers = (one.nbytes for one in map(argument, launch.arguments) if isinstance(one, np.ndarray))
    return dict(enumerate(buffers, 1))


def buffers_bytes(launch: KernelLaunch) -> int:
    """Bytes of all buffers. Raises LaunchError."""
    return sum(buffer_sizes(launch).values())


def of_file(path: Path) -> KernelLaunch:
    """The launch in a TOML file: source (beside it), kernel, global, local, args, and a table define. Raises LaunchError."""
    try:
        raw = sanitize.parse_toml(sanitize.read_regular(path, MAX_FILE_BYTES))
        unknown = set(raw) - {"source", "kernel", "global", "local", "args", "define"}
        if unknown:
            raise LaunchError(f"{path}: unknown key {sorted(unknown)[0]}")
        sizes = tuple(int(size) for size in raw["global"])
        local = tuple(int(size) for size in raw["local"]) if "local" in raw else default_local(sizes)
        args = tuple(str(one) for one in raw.get("args", ()))
        args = tuple(f"file:{path.parent / one[5:]}" if one.startswith("file:") else one for one in args)
        given = {str(name): str(value) for name, value in raw.get("define", {}).items()}
        return KernelLaunch(path.parent / raw["source"], str(raw.get("kernel", "")), sizes, local, args, given)
    except OSError as error:
        raise LaunchError(f"{path}: {sanitize.input_problem(error)}") from error
    except KeyError as error:
        raise LaunchError(f"{path}: no {error.args[0]}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise LaunchError(f"{path}: {error}") from error


def _with_includes(source: str, folder: Path) -> str:
    """The source, which finds files beside it wherever the command runs: a driver has its text alone."""

    def found(match: re.Match[str]) -> str:
        path = (folder / match[2]).absolute()
        return f'{match[1]}"{path}"' if path.is_file() else match[0]

    return INCLUDE.sub(found, source)


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """A launch on a device: the command, and each buffer with its first content as bytes."""

    command: Launch
    buffers: tuple[tuple[Buffer, Array], ...]


def prepared(device: Device, launch: KernelLaunch) -> PreparedLaunch:
    """Build the kernel and fill its buffers. Raises LaunchError, BuildError and DeviceError."""
    given = [argument(text, number) for number, text in enumerate(launch.arguments)]
    try:
        source = _with_includes(launch.source.read_text(encoding="utf-8", errors="replace"), launch.source.parent)
    except OSError as error:
        raise LaunchError(f"{launch.source} cannot be read: {error.strerror}") from error
    kernels = device.build(source, **launch.defines)
    kernel = kernels.get(launch.kernel or next(iter(kernels), "")) if launch.kernel or len(kernels) == 1 else None
    if kernel is None and not launch.kernel:
        raise LaunchError(f"{launch.source} has several kernels: choose one by --kernel: {', '.join(sorted(kernels))}")
    if kernel is None:
        raise LaunchError(f"{launch.source} has no kernel {launch.kernel!r}, only {', '.join(sorted(kernels)) or 'none'}")
    args: list[Buffer | np.generic | Local] = []
    buffers = []
    for one in given:
        if isinstance(one, np.ndarray):
            buffer = device.alloc(one.nbytes)
            device.upload(buffer, one)
            buffers.append((buffer, one.reshape(-1).view(np.uint8)))
            args.append(buffer)
        else:
            args.append(one)
    return PreparedLaunch(Launch(kernel, tuple(args), launch.global_size, launch.local_size), tuple(buffers))
