"""Transposes a matrix by transpose.cl, as any program of PyOpenCL would: clmembench kernel --from traces its kernel."""

import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

n = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
matrix = np.random.default_rng(0).random((n, n), np.float32)
source = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=matrix)
target = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, matrix.nbytes)
program = cl.Program(context, Path(__file__).with_suffix(".cl").read_text()).build()
program.transpose(queue, (n, n), (16, 16), source, target, np.uint32(n))
found = np.empty_like(matrix)
cl.enqueue_copy(queue, found, target)
assert np.array_equal(found, matrix.T)
