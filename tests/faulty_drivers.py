"""OpenCL drivers that fail while devices are listed, and a layer that makes claims of a real driver fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# the least of a driver: the loader asks it for its platforms, at which it fails
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int clIcdGetPlatformIDsKHR(unsigned n, void **platforms, unsigned *count) {
    fprintf(stderr, "error: the device file is gone\nnote: see the manual\n");
    printf("[]\n"); fflush(stdout);
    FAULT;
    return -1001;
}
int clGetPlatformInfo(void *platform, unsigned name, size_t size, void *value, size_t *length) { return -30; }
void *clGetExtensionFunctionAddress(const char *name) {
    return strcmp(name, "clIcdGetPlatformIDsKHR") ? 0 : (void *)clIcdGetPlatformIDsKHR;
}
"""
FAULTS = {"aborts": "abort()", "exits": "_exit(0)", "hangs": "for (;;) pause()"}
# a layer between the loader and every driver: devices have the name in LAYER_NAME; the query LAYER_FAILS fails, as do
# LAYER_ODDS of 100 queries of any kind; all bytes of the query LAYER_CLAIM are LAYER_BYTE
LAYER = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef int (*query)(void *, unsigned, size_t, void *, size_t *);
static void *table[256];
static query next;
static unsigned number(const char *variable) { return getenv(variable) ? strtoul(getenv(variable), 0, 0) : 0; }
static int device_info(void *device, unsigned name, size_t size, void *value, size_t *length) {
    const char *text = getenv("LAYER_NAME");
    if (name == number("LAYER_FAILS") || rand() % 100 < (int)number("LAYER_ODDS")) return -5;
    if (name != 0x102B || !text) {
        int answer = next(device, name, size, value, length);
        if (!answer && value && name == number("LAYER_CLAIM")) memset(value, number("LAYER_BYTE"), size);
        return answer;
    }
    if (length) *length = strlen(text) + 1;
    if (value) { if (size < strlen(text) + 1) return -30; strcpy(value, text); }
    return 0;
}
int clGetLayerInfo(unsigned name, size_t size, void *value, size_t *length) {
    if (value) *(unsigned *)value = 100;
    if (length) *length = sizeof(unsigned);
    return 0;
}
int clInitLayer(unsigned n, void **target, unsigned *count, void ***layer) {
    memcpy(table, target, n * sizeof *table);
    next = (query)target[3];
    table[3] = (void *)device_info;
    *count = n; *layer = table;
    srand(getpid());
    return 0;
}
"""


def compiled(path: Path, source: str, *defines: str) -> Path | None:
    """A shared library of that source; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    subprocess.run([compiler, "-shared", "-fPIC", *defines, "-o", path, "-xc", "-"], input=source, text=True, check=True)
    return path
