"""Errors of OpenCL in one line, with what to do about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyopencl as cl

from clmembench.model import DeviceError
from clmembench.runtimes.opencl import enqueue

REMEDY_OF_CODE = {
    -4: "the device could not allocate memory: lower --size (or -a), or free memory on the device",
    -5: "the device is out of resources: lower --size (or -a), or close other programs that use it",
    -6: "the host is out of memory: lower --size (or -a)",
    -54: "the work-group size does not suit this kernel on this device",
    -55: "the work-items of a work-group do not suit this device",
    -61: "a buffer is over the device's largest allocation: lower --size (or -a)",
}


@contextmanager
def explained_errors() -> Iterator[None]:
    """Turn the driver's errors into a DeviceError of one line with a remedy."""
    try:
        yield
    except (cl.Error, enqueue.OpenCLFailure) as error:
        remedy = REMEDY_OF_CODE.get(error.code, "")
        first_line = str(error).strip().splitlines()[0]
        raise DeviceError(f"{first_line}{': ' + remedy if remedy else ''}") from error
