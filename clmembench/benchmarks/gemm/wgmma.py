"""PTX programs of wgmma, the matrix instruction of four sub-groups of NVIDIA's sm_90a, which OpenCL C cannot name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clmembench.benchmarks.dgemm.ptx_program import Program
from clmembench.benchmarks.low_precision import BY_PTX, instruction_product, sum_note
from clmembench.model import BuildError, Device, Launch, Skip, Slope, Work

WORK_GROUP = 128  # four sub-groups, which issue an instruction together
ROWS, COLUMNS, ROW_BYTES = 64, 256, 32  # of an instruction's result, and of each operand's rows
SWIZZLE_128 = 1  # in a descriptor
CORE_BYTES = 8 * 16  # of a core matrix, of which operands in local memory consist: 8 rows of 16 bytes
A_BYTES, B_BYTES = ROWS * ROW_BYTES, COLUMNS * ROW_BYTES
SUMS = ROWS * COLUMNS // WORK_GROUP  # elements of the result in a work-item
GROUPS_PER_UNIT = 3  # as many as have room for the sums of a chain each
BATCH = 64  # instructions between two waits


@dataclass(frozen=True, slots=True)
class Wgmma:
    """The instruction of one type of operands: `result` is the type of its sums, `flags` are what follows its predicate."""

    kind: str
    result: str
    depth: int
    flags: str

    def name(self, columns: int = COLUMNS) -> str:
        return f"wgmma.mma_async.sync.aligned.m{ROWS}n{columns}k{self.depth}.{self.result}.{self.kind}.{self.kind}"


BY_TYPE = {
    "half": Wgmma("f16", "f32", 16, ", 1, 1, 0, 0"),
    "bfloat16": Wgmma("bf16", "f32", 16, ", 1, 1, 0, 0"),
    "tf32": Wgmma("tf32", "f32", 8, ", 1, 1"),
    "char": Wgmma("s8", "s32", 32, ""),
    "fp8": Wgmma("e4m3", "f32", 32, ", 1, 1"),
}


def descriptor(p: Program, address: str, along_depth: int, along_rows: int, swizzle: int = 0) -> str:
    """The register that describes an operand in local memory, in which neighbouring core matrices lie so many bytes apart.

    With SWIZZLE_128 rows have 128 bytes, whose pieces of 16 are permuted by the row's number, and groups of 8 rows follow each
    other `along_rows`.
    """
    start = p.let("cvt.u64.u32", p.let("shr.u32", address, 4))
    return p.let("or.b64", start, (along_depth >> 4) << 16 | (along_rows >> 4) << 32 | swizzle << 62)


PROBE_COLUMNS = 8


def product_program(wgmma: Wgmma) -> str:
    """The program of `product`: one instruction on matrices as they lie in local memory, whose sums begin with those of C."""
    p = Program()
    a, b, c = (p.let("ld.param.b64", f"[{name}]") for name in "abc")
    item, slabs = p.let("mov.u32", "%tid.x"), p.let("mov.u32", "slabs")
    offset = p.wide(item, 16)
    few = p.let("setp.lt.u32", item, PROBE_COLUMNS * ROW_BYTES // 16)
    for source, first, when in ((a, 0, ""), (b, A_BYTES, few)):
        piece = p.several("b32", 4)
        p.op("ld.global.v4.b32", f"{{{', '.join(piece)}}}", f"[{p.let('add.s64', source, offset)}]", when=when)
        at = p.let("mad.lo.u32", item, 16, slabs)
        p.op("st.shared.v4.b32", f"[{at}+{first}]", f"{{{', '.join(piece)}}}", when=when)
    sums, place = p.several("f32", 4), p.let("add.s64", c, offset)
    p.op("ld.global.v4.f32", f"{{{', '.join(sums)}}}", f"[{place}]")
    p.op("fence.proxy.async")
    p.op("bar.sync", 0)
    operands = [descriptor(p, p.let("add.u32", slabs, first), CORE_BYTES, 2 * CORE_BYTES) for first in (0, A_BYTES)]
    p.op("wgmma.fence.sync.aligned")
    always = p.let("setp.eq.u32", item, item)
    p.op(wgmma.name(PROBE_COLUMNS), f"{{{', '.join(sums)}}}", *operands, f"{always}{wgmma.flags}")
    p.op("wgmma.commit_group.sync.aligned")
    p.op("wgmma.wait_group.sync.aligned", 0)
    p.op("st.global.v4.f32", f"[{place}]", f"{{{', '.join(sums)}}}")
    p.op("ret")
    nbytes = A_BYTES + PROBE_COLUMNS * ROW_BYTES
    return p.text("product", [(name, "b64") for name in "abc"], WORK_GROUP, nbytes, 1, "sm_90a", "8.0")


def rate_program(wgmma: Wgmma, resident: int) -> str:
    """The program of `chains`: batches of instructions that add A B and A B' in turns.

    All elements of A and B are the number whose bits are `one`, and those of B' are `two`. After each batch, which begins with
    sums of 0, a work-item adds its sums up, and at the end all of them to its number.
    """
    p = Program()
    kinds = {"out": "b64", "one": "b32", "two": "b32", "rounds": "b32"}
    values = {parameter: p.let(f"ld.param.{kind}", f"[{parameter}]") for parameter, kind in kinds.items()}
    item, slabs, loop = p.let("mov.u32", "%tid.x"), p.let("mov.u32", "slabs"), p.label("BATCH")
    number = p.let("mad.lo.u32", p.let("mov.u32", "%ctaid.x"), WORK_GROUP, item)
    at = p.let("mad.lo.u32", item, 16, slabs)
    for offset in range(0, A_BYTES + 2 * B_BYTES, 16 * WORK_GROUP):
        bits = values["one" if offset < A_BYTES + B_BYTES else "two"]
        p.op("st.shared.v4.b32", f"[{at}+{offset}]", f"{{{bits}, {bits}, {bits}, {bits}}}")
    p.op("fence.proxy.async")
    p.op("bar.sync", 0)
    operands = [
        descriptor(p, p.let("add.u32", slabs, offset), CORE_BYTES, 2 * CORE_BYTES) for offset in (0, A_BYTES, A_BYTES + B_BYTES)
    ]
    kind = "f32" if wgmma.result == "f32" else "b32"
    sums, total, rounds = p.several(kind, SUMS), p.let("mov.u32", number), values["rounds"]
    never, ever = p.let("setp.ne.u32", item, item), p.let("setp.eq.u32", item, item)
    p.place(loop)
    p.op("wgmma.fence.sync.aligned")
    for i in range(BATCH):
        p.op(wgmma.name(), f"{{{', '.join(sums)}}}", operands[0], operands[1 + i % 2], f"{ever if i else never}{wgmma.flags}")
    p.op("wgmma.commit_group.sync.aligned")
    p.op("wgmma.wait_group.sync.aligned", 0)
    while len(sums) > 1:
        sums = [p.let(f"add.{wgmma.result}", *sums[i : i + 2]) for i in range(0, len(sums), 2)]
    whole = p.new("b32")
    p.op("cvt.rni.u32.f32" if kind == "f32" else "mov.u32", whole, *sums)
    p.op("add.u32", total, total, whole)
    p.op("sub.u32", rounds, rounds, 1)
    p.op("bra", loop, when=p.let("setp.ne.u32", rounds, 0))
    p.op("st.global.u32", f"[{p.let('add.s64', values['out'], p.wide(number, 4))}]", total)
    p.op("ret")
    return p.text("chains", list(kinds.items()), WORK_GROUP, A_BYTES + 2 * B_BYTES, resident, "sm_90a", "8.0")


def rate_by_groups(device: Device, kind: str) -> Slope:
    """Rate of the instruction by a chain of it in each work-group; a round is a batch of them. Raises Skip without it."""
    wgmma, low = BY_TYPE[kind], BY_PTX[f"{kind}_matrix"]
    try:
        kernel = device.assemble(rate_program(wgmma, GROUPS_PER_UNIT))["chains"]
        product = device.assemble(product_program(wgmma))["product"] if low.fraction else None
    except BuildError as error:
        raise Skip(f"the driver does not assemble {wgmma.name()} for this device") from error
    items = WORK_GROUP * GROUPS_PER_UNIT * device.info.compute_units
    out = device.alloc(4 * items)
    operands = [np.uint32(bits) for bits in low.encode(np.array([1.0, 2.0]))]
    notes = (sum_note(f"{kind}_wgmma", low, instruction_product(device, product, WORK_GROUP)),) if product is not None else ()

    def work(rounds: int) -> Work:
        def check() -> None:
            added = BATCH // 2 * wgmma.depth * (1 + 2) * SUMS * rounds
            wanted = (np.arange(items, dtype=np.uint64) + np.uint64(added)).astype(np.uint32)
            wrong = int((device.download(out, np.uint32, items) != wanted).sum())
            assert wrong == 0, f"{wrong} of {items} sums are not those of {BATCH * rounds} steps"

        return Work(
            commands=(Launch(kernel, (out, *operands, np.uint32(rounds)), (items,), (WORK_GROUP,)),),
            notes=notes,
            flops=2 * items * SUMS * wgmma.depth * BATCH * rounds,
            outputs=((out, 4 * items),),
            check=check,
        )

    return Slope(work, start=1, most=1 << 24)
