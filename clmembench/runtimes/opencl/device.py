"""OpenCL devices through pyopencl: opens a device, runs and times commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from clmembench.model import (
    Array,
    Batch,
    Call,
    Command,
    DeviceError,
    DeviceInfo,
    HostPart,
    ImageForm,
    Kernel,
    Launch,
    Local,
    MemoryKind,
    Skip,
    Timing,
    TimingMethod,
    Value,
)
from clmembench.runtimes.opencl import enqueue
from clmembench.runtimes.opencl.build import OpenCLKernel, build_program, compile_program
from clmembench.runtimes.opencl.enqueue import explained_errors
from clmembench.runtimes.opencl.sample import (
    BLOCKING_SOURCE,
    CommandTimer,
    QueueBlocker,
    bind_command,
    prepare_commands,
    time_commands,
)
from clmembench.runtimes.shared import BuiltSources, check_buffer, check_shape, options_of, time_library_work


class OpenCLDevice:
    """One device with two queues that stamp events and two that do not (stamping costs time on some drivers), and as many for
    each of its peers, which are in the same context."""

    def __init__(self, info: DeviceInfo, handle: Any, peers: Sequence[Any] = ()) -> None:
        self.info = info
        self.seed = 0
        self.known_facts: dict[str, Mapping[str, Value]] = {}
        self._handle = handle
        with explained_errors():
            self._context = cl.Context([handle, *peers])
            stamps = cl.command_queue_properties.PROFILING_ENABLE
            self._stamped = [cl.CommandQueue(self._context, one, stamps) for one in (handle, *peers) for _ in range(2)]
            self._plain = [cl.CommandQueue(self._context, one) for one in (handle, *peers) for _ in range(2)]
        self._kept: dict[str, Any] = {}
        self._built = BuiltSources()
        self._programs: dict[str, Mapping[str, Kernel]] = {}
        self._samples: dict[int, CommandTimer] = {}  # the last two, by which of the kernels' objects they use
        self._turn = 0
        self._blocker: QueueBlocker | None = None
        self._objects: dict[int, list[Any]] = {}  # kernel objects by the id of the first one, which the list keeps alive

    def alloc(self, nbytes: int, kind: MemoryKind = "device") -> Any:
        """A buffer. Raises Skip for allocations by pointers.

        Raises DeviceError, with the sizes and before allocating, for a buffer over the device's limits.
        """
        self._samples.clear()  # they hold the memory of the previous point
        if kind in ("shared", "host"):
            raise Skip(f"OpenCL has no {kind} allocations: they are SYCL's, -d sycl:0")
        check_buffer(self.info, nbytes)
        flags = cl.mem_flags.READ_WRITE
        if kind == "mapped":
            flags |= cl.mem_flags.ALLOC_HOST_PTR
        with explained_errors():
            return cl.Buffer(self._context, flags, nbytes)

    def kept(self, name: str, nbytes: int) -> Any:
        """The buffer of this name, replaced only by a larger one, of the next power of two so that this is rare."""
        if name not in self._kept or self._kept[name].size < nbytes:
            self._kept.pop(name, None)  # released before the larger one is allocated
            self._kept[name] = self.alloc(max(nbytes, min(1 << (nbytes - 1).bit_length(), self.info.max_alloc_bytes)))
        return self._kept[name]

    def release(self) -> None:
        self._kept.clear()
        self._samples.clear()

    def image(self, texels: Array, form: ImageForm) -> Any:
        """A read-only image of 32-bit unsigned texels, with one channel, or with four if it is two-dimensional."""
        self._samples.clear()
        order = cl.channel_order.RGBA if form == "2d" else cl.channel_order.R
        texel = cl.ImageFormat(order, cl.channel_type.UNSIGNED_INT32)
        shape = texels.shape[1::-1] if form == "2d" else texels.shape
        filled = {"hostbuf": np.ascontiguousarray(texels, np.uint32)}
        with explained_errors():
            copied = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            if form == "1d_buffer":
                buffer = cl.Buffer(self._context, copied, **filled)
                return cl.create_image(self._context, cl.mem_flags.READ_ONLY, texel, shape, buffer=buffer)
            return cl.create_image(self._context, copied, texel, shape, **filled)

    def host_array(self, nbytes: int, pinned: bool) -> Array:
        """Host memory as bytes: pageable memory with all pages touched, or the driver's own (page-locked) through a mapping."""
        self._samples.clear()
        if not pinned:
            return np.full(nbytes, 1, dtype=np.uint8)
        buffer = self.alloc(nbytes, "mapped")
        with explained_errors():
            both = cl.map_flags.READ | cl.map_flags.WRITE
            array, _ = cl.enqueue_map_buffer(self._plain[0], buffer, both, 0, (nbytes,), np.uint8)
        array[:] = 1
        return array  # type: ignore[no-any-return]  # its mapping keeps the buffer alive, and is unmapped with it

    def upload(self, buffer: Any, array: Array) -> None:
        with explained_errors():
            cl.enqueue_copy(self._plain[0], buffer, np.ascontiguousarray(array))

    def download(self, buffer: Any, dtype: npt.DTypeLike, count: int, offset_bytes: int = 0) -> Array:
        array = np.empty(count, dtype=dtype)
        with explained_errors():
            cl.enqueue_copy(self._plain[0], array, buffer, src_offset=offset_bytes)
        return array

    @contextmanager
    def mapped(self, buffer: Any, nbytes: int, mode: Literal["read", "write"]) -> Iterator[Array]:
        """The first bytes of a buffer, mapped for the host while the block runs."""
        flags = cl.map_flags.READ if mode == "read" else cl.map_flags.WRITE_INVALIDATE_REGION
        with explained_errors():
            array, _ = cl.enqueue_map_buffer(self._plain[0], buffer, flags, 0, (nbytes,), np.uint8)
            try:
                yield array
            finally:
                array.base.release(self._plain[0]).wait()

    def build(self, source: str, **defines: Value) -> Mapping[str, Kernel]:
        """Every kernel of the source, by name, compiled once. Raises BuildError with the first error and the log."""
        options = options_of(defines)
        key = self._built.add(source, options)
        if key not in self._programs:
            with self._built.timed():
                self._programs[key] = build_program(self._context, source, options)
        return self._programs[key]

    def assemble(self, program: str) -> Mapping[str, Kernel]:
        """Every kernel of a program in PTX, by name, assembled once. Raises Skip where drivers take none, and BuildError."""
        if "ptx" not in self.info.features:
            raise Skip("this driver takes no programs in PTX")
        key = self._built.add(program, [])
        if key not in self._programs:
            with self._built.timed():
                self._programs[key] = build_program(self._context, program, [], is_ptx=True)
        return self._programs[key]

    def compiled(self, kernel: Kernel) -> Mapping[str, Value]:
        """Facts about a kernel from its compiler: see `opencl.build`."""
        assert isinstance(kernel, OpenCLKernel)
        if kernel.key not in self.known_facts:
            with self._built.timed():
                self.known_facts[kernel.key] = compile_program(self._context, self._handle, kernel)
        return self.known_facts[kernel.key]

    @property
    def build_s(self) -> float:
        return self._built.seconds

    def sources(self) -> str:
        return self._built.hashes()

    def run(self, commands: Sequence[Command]) -> None:
        self.time(commands, 1, "host")

    def time(self, commands: Sequence[Command], passes: int, clock: TimingMethod) -> Timing:
        """One sample of `passes` passes. Events are stamped unless `clock` is the host's.

        Every call is prepared before the clocks start; then only enqueue.run_calls runs, whose cost per call the benchmark
        launch_call measures.
        """
        with explained_errors():
            timing = time_library_work(commands, passes)
            if timing is not None:
                return timing
            try:
                sample = self._sample(commands, passes, clock)
                if clock == "batch":
                    return self._queue_blocker().time_batch(sample, enqueue.bind_flush(self._stamped[0]))
                return time_commands(sample)
            except enqueue.OpenCLFailure:
                self._samples.clear()
                raise

    def _sample(self, commands: Sequence[Command], passes: int, clock: TimingMethod) -> CommandTimer:
        """The calls of a sample; those of one of the last two again, the ends of a slope, if it is the same and no memory was
        allocated since.

        Samples of microseconds then follow each other closely and find warm caches, as in a program that is not Python.
        """
        for sample in self._samples.values():
            if sample.commands is commands and (sample.passes, sample.clock) == (passes, clock):
                return sample
        self._turn ^= 1
        self._samples.pop(self._turn, None)  # its arguments are replaced
        queues = self._plain if clock == "host" else self._stamped
        used = {i: queues[i] for i in sorted({c.queue for c in commands if not isinstance(c, Call | Batch)})}
        sample = prepare_commands(commands, passes, clock, self._bind(commands, queues, self._turn), used)
        if isinstance(commands, tuple):  # a list may have changed by the next call
            self._samples[self._turn] = sample
        return sample

    def _queue_blocker(self) -> QueueBlocker:
        """The kernel that holds the first queue while passes are enqueued, built once and not among a record's sources."""
        if self._blocker is None:
            built = build_program(self._context, BLOCKING_SOURCE, [])["hold_queue"]
            assert isinstance(built, OpenCLKernel)
            out = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, 4)

            def launch(rounds: int) -> enqueue.PreparedCommand:
                built.handle.set_args(out, np.uint32(rounds))
                return enqueue.bind_launch(Launch(built, (), (1,), (1,)), built.handle, self._stamped[0])

            self._blocker = QueueBlocker(launch)
        return self._blocker

    def _bind(self, commands: Sequence[Command], queues: Sequence[Any], turn: int) -> list[enqueue.PreparedCommand]:
        """Everything that can be done before the clock starts: sizes are checked and arguments set.

        A kernel with several sets of arguments has an object for each: setting arguments between launches would put Python's
        time into the sample. So do the two samples that are kept, whose `turn` is 0 or 1.
        """
        sets: dict[int, list[int]] = {}
        bound: dict[int, enqueue.PreparedCommand] = {}
        for command in commands:
            if id(command) in bound:
                continue
            launch = command.launch if isinstance(command, HostPart) else command
            if isinstance(launch, Launch):
                known = sets.setdefault(id(launch.kernel), [])
                if id(launch.args) not in known:
                    known.append(id(launch.args))
                kernel = self._object(launch.kernel, 2 * known.index(id(launch.args)) + turn)
                check_shape(self.info, launch)
                if kernel.num_args != len(launch.args):
                    name = launch.kernel.name
                    raise DeviceError(f"kernel {name} takes {kernel.num_args} arguments, and {len(launch.args)} are given")
                kernel.set_args(*(cl.LocalMemory(a.nbytes) if isinstance(a, Local) else a for a in launch.args))
                if launch is command:
                    bound[id(command)] = enqueue.bind_launch(launch, kernel, queues[launch.queue])
                else:
                    bound[id(command)] = enqueue.bind_host_part(launch, kernel)
            else:
                bound[id(command)] = bind_command(command, queues)
        return [bound[id(command)] for command in commands]

    def _object(self, kernel: Kernel, number: int) -> Any:
        """The kernel's own object, or its number-th further one; objects are expensive, so each is created once and stored."""
        assert isinstance(kernel, OpenCLKernel)
        objects = self._objects.setdefault(id(kernel.handle), [kernel.handle])
        while len(objects) <= number:
            objects.append(cl.Kernel(kernel.program, kernel.handle.function_name))
        return objects[number]


__all__ = ["OpenCLDevice", "OpenCLKernel"]
