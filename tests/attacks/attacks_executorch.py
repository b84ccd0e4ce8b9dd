"""ExecuTorch: FlatBuffers whose tables, names and segments are shared or invalid."""
import struct

from attack import REFUSED, Attack, one_file, sparse
from flatbuffer import FlatBuffer, Shared

CHAR, TENSOR = 1, 5
MANY = 50_000


def with_header(root, identifier, header_of, data):
    """`header_of`: the extended header for a base of the segments."""
    tables = bytes(FlatBuffer(root).bytes)
    header = header_of(0)
    base = 8 + len(header) + len(tables) - 4
    at = struct.unpack_from("<I", tables)[0]
    return struct.pack("<I4s", at + 4 + len(header), identifier) + header_of(base) + tables[4:] + data


def ptd(segments, named, data=bytes(64)):
    return with_header({0: ("I", 1), 1: segments, 2: named}, b"FT01",
                       lambda base: struct.pack("<4sIQQQQ", b"FH01", 40, 48, base, base, len(data)), data)


def pte(methods, **more):
    data = bytes(64)
    root = {0: ("I", 0), 1: methods, **{int(slot[1:]): field for slot, field in more.items()}}
    return with_header(root, b"ET12", lambda base: struct.pack("<4sIQQQ", b"eh00", 32, base, base, len(data)), data)


def segment(offset=0, size=64):
    return {0: ("Q", offset), 1: ("Q", size)}


def named(key, layout=None, index=0):
    return {0: key, 1: ("I", index), 2: layout}


def layout(sizes=(8,), order=None):
    return {0: ("b", CHAR), 1: sizes if isinstance(sizes, Shared) else ("i", tuple(sizes)), 2: order}


def value(name="", **more):
    return {0: ("B", TENSOR), 1: {0: ("b", CHAR), 2: ("i", (8,)), 5: ("I", 1), 9: {1: name}, **{int(slot[1:]): field for slot, field in more.items()}}}


def ptd_file(make):
    return one_file("m.ptd", lambda: ptd(*make()))


def pte_file(make):
    return one_file("m.pte", lambda: pte(**make()))


CONSTANTS = {"s4": [segment()], "s5": {1: ("Q", (0, 0))}}

ATTACKS = [
    Attack("executorch-named-shared", "executorch", "1,000,000 named tensors are one",
           ptd_file(lambda: ([segment()], [Shared(named("w", layout()))] * 1_000_000))),
    Attack("executorch-blob-shared", "executorch", "1,000,000 named blobs are one",
           ptd_file(lambda: ([segment()], [Shared(named("w"))] * 1_000_000))),
    Attack("executorch-key-shared", "executorch", "50,000 tensors share a name of 60,000 bytes",
           ptd_file(lambda: ([segment()], [named(key, layout()) for key in [Shared("k" * 60_000)] for _ in range(MANY)]))),
    Attack("executorch-bad-shared", "executorch", "300,000 tensors are one bad tensor: a warning each",
           ptd_file(lambda: ([segment()], [Shared(named("w", layout((-1,))))] * 300_000))),
    Attack("executorch-sizes-shared", "executorch", "50,000 tensors share a shape of 1,000 sizes",
           ptd_file(lambda: ([segment()], [named("w", layout(sizes)) for sizes in [Shared(("i", (1,) * 1_000))] for _ in range(MANY)]))),
    Attack("executorch-order-shared", "executorch", "50,000 tensors share a dim_order of 1,000,000 dimensions",
           ptd_file(lambda: ([segment()], [named("w", layout((8,), order)) for order in [Shared(("B", bytes(1_000_000)))] for _ in range(MANY)]))),
    Attack("executorch-transposed", "executorch", "10 tensors of 4,096 x 4,096 transposed bytes share a segment of 16 MB",
           ptd_file(lambda: ([segment(0, 1 << 24)], [named(f"w{i}", layout((4_096, 4_096), ("B", (1, 0)))) for i in range(10)], bytes(1 << 24)))),
    Attack("executorch-values-shared", "executorch", "1,000,000 values are one constant",
           pte_file(lambda: {"methods": [{2: [Shared(value())] * 1_000_000}], **CONSTANTS})),
    Attack("executorch-methods-shared", "executorch", "1,000 methods are one of 10,000 values that are one",
           pte_file(lambda: {"methods": [Shared({2: [Shared(value(), 1)] * 10_000})] * 1_000, **CONSTANTS})),
    Attack("executorch-value-names-shared", "executorch", "50,000 constants share a name of 60,000 bytes",
           pte_file(lambda: {"methods": [{2: [value(name, s5=("I", i + 1)) for name in [Shared("n" * 60_000)] for i in range(MANY)]}], **CONSTANTS})),
    Attack("executorch-operators-shared", "executorch", "100,000 methods are one with 1,000 operators",
           pte_file(lambda: {"methods": [Shared({6: [Shared({0: "aten::add", 1: "out"}, 1)] * 1_000})] * 100_000})),
    Attack("executorch-delegates-shared", "executorch", "500,000 delegates are one with a name of 10,000 bytes",
           pte_file(lambda: {"methods": [{7: [Shared({0: "d" * 10_000, 1: {0: ("b", 1)}})] * 500_000}], "s4": [segment()]})),
    Attack("executorch-instructions-shared", "executorch", "1,000,000 instructions are one",
           pte_file(lambda: {"methods": [{5: [{2: [Shared({0: ("B", 5), 1: {}})] * 1_000_000}]}]})),
    Attack("executorch-arguments-shared", "executorch", "50,000 kernel calls share 100,000 arguments",
           pte_file(lambda: {"methods": [{5: [{2: [{0: ("B", 1), 1: {1: args}} for args in [Shared(("i", bytes(400_000)))] for _ in range(MANY)]}]}]})),
    Attack("executorch-segment-wraps", "executorch", "segments at 2^64 - 1",
           ptd_file(lambda: ([segment((1 << 64) - 1, 64), segment(0, (1 << 64) - 1)], [named("a", layout()), named("b", layout(), 1)]))),
    Attack("executorch-base-wraps", "executorch", "a segment base of 2^64 - 1", one_file(
        "m.ptd", lambda: (lambda data: data[:32] + b"\xff" * 8 + data[40:])(ptd([segment(8)], [named("a", layout())])))),
    Attack("executorch-list-2-32", "executorch", "a list of 2^32 - 1 methods", one_file(
        "m.pte", lambda: (lambda data, at: data[:at] + b"\xff" * 4 + data[at + 4:])(*(lambda data: (data, data.find(struct.pack("<I", 1), 60)))(pte([{}])))),
        REFUSED),
    Attack("executorch-hole", "executorch", "3 GB, mostly a hole", sparse("m.ptd", lambda: ptd([segment(0, 2_000_000_000)], [named("w", layout((2_000_000_000,)))]), 3_000_000_000)),
]
