"""ExecuTorch: FlatBuffers whose tables, names and segments are shared or invalid."""
import struct

from attack import EITHER, REFUSED, SHOWN, Attack, one_file, sparse
from limits import CPU_PER_READ_BYTE_S
from flatbuffer import FlatBuffer, Shared
from zeros import SEGMENT, list_behind_all, zip_of

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
    return {
        0: ("B", TENSOR),
        1: {0: ("b", CHAR), 2: ("i", (8, )), 5: ("I", 1), 9: {1: name}, **{int(slot[1:]): field for slot, field in more.items()}}
    }


def ptd_file(make):
    return one_file("m.ptd", lambda: ptd(*make()))


def pte_file(make):
    return one_file("m.pte", lambda: pte(**make()))


def transposed(sizes=(4_096, 4_096)):
    return layout(sizes, ("B", tuple(reversed(range(len(sizes))))))


def in_zeros(count, layout_of, size=SEGMENT, step=SEGMENT):
    """A .ptd file in a zip that ends with zeros, where its `count` tensors are, each in a segment."""
    def make():
        return ptd([segment(i * step, size) for i in range(count)], [named(f"w{i}", layout_of(), i) for i in range(count)], b"")
    return zip_of({"m.ptd": make}, {"m.ptd": max(count * step, size) // SEGMENT * SEGMENT + SEGMENT})


def list_of_zeros(slot):
    """A .ptd file in a zip with a list in this slot whose 64 Mi elements are zeros behind all else."""
    return zip_of({"m.ptd": lambda: list_behind_all(ptd([segment()], [named("w", layout())]), slot)}, {"m.ptd": 16 * SEGMENT})


def tables(make):
    """A .ptd file whose FlatBuffer is these bytes from 48 on, behind a valid header."""
    return one_file("m.ptd", lambda: struct.pack("<I4s4sIQQQQ", 48, b"FT01", b"FH01", 40, 48, 48, 48, 64) + make())


CONSTANTS = {"s4": [segment()], "s5": {1: ("Q", (0, 0))}}

ATTACKS = [
    Attack("executorch-named-shared", "executorch", "1,000,000 named tensors are one",
           ptd_file(lambda: ([segment()], [Shared(named("w", layout()))] * 1_000_000))),
    Attack("executorch-blob-shared", "executorch", "1,000,000 named blobs are one",
           ptd_file(lambda: ([segment()], [Shared(named("w"))] * 1_000_000))),
    Attack("executorch-key-shared", "executorch", "50,000 tensors share a name of 60,000 bytes",
           ptd_file(lambda: ([segment()], [named(key, layout()) for key in [Shared("k" * 60_000)] for _ in range(MANY)]))),
    Attack("executorch-bad-shared", "executorch", "300,000 tensors are one bad tensor: a warning each",
           ptd_file(lambda: ([segment()], [Shared(named("w", layout((-1, ))))] * 300_000))),
    Attack(
        "executorch-sizes-shared", "executorch", "50,000 tensors share a shape of 1,000 sizes",
        ptd_file(lambda:
                 ([segment()], [named("w", layout(sizes)) for sizes in [Shared(("i", (1, ) * 1_000))] for _ in range(MANY)]))),
    Attack(
        "executorch-order-shared", "executorch", "50,000 tensors share a dim_order of 1,000,000 dimensions",
        ptd_file(lambda: ([segment()],
                          [named("w", layout((8, ), order)) for order in [Shared(("B", bytes(1_000_000)))] for _ in range(MANY)]))),
    Attack(
        "executorch-transposed", "executorch", "10 tensors of 4,096 x 4,096 transposed bytes share a segment of 16 MB",
        ptd_file(lambda: ([segment(0, 1 << 24)], [named(f"w{i}", layout((4_096, 4_096), ("B", (1, 0))))
                                                  for i in range(10)], bytes(1 << 24)))),
    Attack("executorch-values-shared", "executorch", "1,000,000 values are one constant",
           pte_file(lambda: {"methods": [{2: [Shared(value())] * 1_000_000}], **CONSTANTS})),
    Attack("executorch-methods-shared", "executorch", "1,000 methods are one of 10,000 values that are one",
           pte_file(lambda: {"methods": [Shared({2: [Shared(value(), 1)] * 10_000})] * 1_000, **CONSTANTS})),
    Attack(
        "executorch-value-names-shared", "executorch", "50,000 constants share a name of 60,000 bytes",
        pte_file(lambda: {
            "methods": [{2: [value(name, s5=("I", i + 1)) for name in [Shared("n" * 60_000)] for i in range(MANY)]}], **CONSTANTS
        })),
    Attack("executorch-operators-shared", "executorch", "100,000 methods are one with 1,000 operators",
           pte_file(lambda: {"methods": [Shared({6: [Shared({0: "aten::add", 1: "out"}, 1)] * 1_000})] * 100_000})),
    Attack("executorch-delegates-shared", "executorch", "500,000 delegates are one with a name of 10,000 bytes",
           pte_file(lambda: {"methods": [{7: [Shared({0: "d" * 10_000, 1: {0: ("b", 1)}})] * 500_000}], "s4": [segment()]})),
    Attack("executorch-instructions-shared", "executorch", "1,000,000 instructions are one",
           pte_file(lambda: {"methods": [{5: [{2: [Shared({0: ("B", 5), 1: {}})] * 1_000_000}]}]})),
    Attack(
        "executorch-arguments-shared", "executorch", "50,000 kernel calls share 100,000 arguments",
        pte_file(lambda: {
            "methods": [{5: [{2: [{0: ("B", 1), 1: {1: args}} for args in [Shared(("i", bytes(400_000)))] for _ in range(MANY)]}]}]
        })),
    Attack(
        "executorch-segment-wraps", "executorch", "segments at 2^64 - 1",
        ptd_file(lambda: ([segment(
            (1 << 64) - 1, 64), segment(0, (1 << 64) - 1)], [named("a", layout()), named("b", layout(), 1)]))),
    Attack("executorch-base-wraps", "executorch", "a segment base of 2^64 - 1",
           one_file("m.ptd", lambda: (lambda data: data[:32] + b"\xff" * 8 + data[40:])
                    (ptd([segment(8)], [named("a", layout())])))),
    Attack(
        "executorch-list-2-32", "executorch", "a list of 2^32 - 1 methods",
        one_file(
            "m.pte", lambda: (lambda data, at: data[:at] + b"\xff" * 4 + data[at + 4:])
            (*(lambda data: (data, data.find(struct.pack("<I", 1), 60)))(pte([{}])))), REFUSED),
    Attack("executorch-hole", "executorch", "3 GB, mostly a hole",
           sparse("m.ptd", lambda: ptd([segment(0, 2_000_000_000)], [named("w", layout((2_000_000_000, )))]), 3_000_000_000),
           cpu=2_000_000_000 * CPU_PER_READ_BYTE_S),
    Attack("executorch-transposed-zeros", "executorch", "24 tensors of 4,096 x 4,096 transposed bytes, which are zeros in a zip",
           in_zeros(24, transposed)),
    Attack("executorch-transposed-zeros-shared", "executorch", "100 transposed tensors of 16 MiB are the same zeros in a zip",
           in_zeros(100, transposed, step=0)),
    Attack("executorch-transposed-zeros-overlap", "executorch", "200 transposed tensors that share bytes of the zeros in a zip",
           in_zeros(200, transposed, step=4_096)),
    Attack("executorch-transposed-readers", "executorch", "10 transposed tensors of the same zeros, and six readers",
           in_zeros(10, transposed, step=0), readers=6),
    Attack("executorch-transposed-12-dimensions", "executorch", "100 tensors of 4 x 4 x ... in 12 dimensions, the last first",
           in_zeros(100, lambda: transposed((4, ) * 12), step=0)),
    Attack("executorch-transposed-long", "executorch", "100 transposed tensors of 2 x 8 Mi",
           in_zeros(100, lambda: transposed((2, 8 << 20)), step=0)),
    Attack("executorch-transposed-thin", "executorch", "100 transposed tensors of 8 Mi x 2",
           in_zeros(100, lambda: transposed((8 << 20, 2)), step=0)),
    Attack("executorch-tensors-of-zeros", "executorch", "48 tensors of 16 MiB of zeros each, in a zip of 800 kB",
           in_zeros(48, lambda: layout((SEGMENT, ))), cpu=48 * SEGMENT * CPU_PER_READ_BYTE_S),
    Attack(
        "executorch-segments-overlap", "executorch", "50,000 segments that share bytes",
        ptd_file(lambda:
                 ([segment(i, 64) for i in range(MANY)], [named(f"w{i}", layout(), i) for i in range(MANY)], bytes(MANY + 64)))),
    Attack("executorch-segment-of-the-tables", "executorch", "a segment before the segments",
           ptd_file(lambda: ([segment((1 << 64) - 32, 64)], [named("w", layout())]))),
    Attack(
        "executorch-shape-2-64", "executorch", "shapes that overflow",
        ptd_file(lambda: ([segment()], [
            named("a", layout(((1 << 31) - 1, ) * 3)),
            named("b", layout((0, ) + ((1 << 31) - 1, ) * 30)),
            named("c", transposed((1 << 30, ) * 4))
        ]))),
    Attack("executorch-shape-long", "executorch", "a shape of 2,000,000 sizes",
           ptd_file(lambda: ([segment()], [named("w", layout((1, ) * 2_000_000))]))),
    Attack(
        "executorch-orders-wrong", "executorch", "dim_orders with a dimension twice, one too many, and one outside",
        ptd_file(lambda: ([segment(
        )], [named(str(order), layout((2, 4), ("B", order))) for order in ((0, 0), (0, 1, 2), (1, 2), (255, 0), (1, ))]))),
    Attack("executorch-names-equal", "executorch", "60,000 tensors with one name",
           ptd_file(lambda: ([segment()], [named("w", layout()) for _ in range(60_000)]))),
    Attack("executorch-names-long", "executorch", "50 tensors with names of 60,000 bytes that differ at the end",
           ptd_file(lambda: ([segment()], [named("n" * 60_000 + str(i), layout()) for i in range(50)]))),
    Attack(
        "executorch-tensors-tiny", "executorch", "60,000 tensors of a byte with segments and names of their own",
        ptd_file(lambda: ([segment(i, 1) for i in range(60_000)], [named(f"w{i}", layout((1, )), i)
                                                                   for i in range(60_000)], bytes(60_000)))),
    Attack("executorch-methods-of-one-name", "executorch", "20,000 methods with one name and a constant each",
           pte_file(lambda: {"methods": [{0: "forward", 2: [value("w", s5=("I", 1))]} for _ in range(20_000)], **CONSTANTS})),
    Attack(
        "executorch-constants-long", "executorch", "5,000 constants whose shared name of 50,000 bytes is compared with each other",
        pte_file(
            lambda: {
                "methods": [{
                    2: [value(name, s5=("I", 1), s6={0: ("I", i)}) for name in [Shared("n" * 50_000)] for i in range(5_000)]
                }], "s6": [{1: ("Q", (0, 0))}], **CONSTANTS
            })),
    Attack(
        "executorch-offsets-shared", "executorch", "50,000 constants in a segment with 1,000,000 offsets",
        pte_file(lambda: {
            "methods": [{2: [value(f"w{i}", s5=("I", i))
                             for i in range(MANY)]}], "s4": [segment()], "s5": {1: ("Q", bytes(8_000_000))}
        })),
    Attack(
        "executorch-offsets-wrap", "executorch", "constants at 2^64 - 1",
        pte_file(lambda: {"methods": [{2: [value("w", s5=("I", 1))]}], "s4": [segment()], "s5": {1: ("Q", (0, (1 << 64) - 1))}})),
    Attack("executorch-lists-in-a-circle", "executorch", "100,000 lists of tensors that name each other",
           pte_file(lambda: {"methods": [{2: [{0: ("B", 10), 1: {0: ("i", ((i + 1) % 100_000, i))}} for i in range(100_000)]}]})),
    Attack(
        "executorch-texts-shared", "executorch", "50,000 values are one text of 1 MB",
        pte_file(
            lambda: {"methods": [{2: [{0: ("B", 6), 1: text} for text in [Shared({0: "t" * 1_000_000})] for _ in range(MANY)]}]})),
    Attack(
        "executorch-delegate-indices", "executorch", "50,000 delegates in blobs that do not exist",
        pte_file(lambda: {
            "methods": [{7: [{0: f"d{i}", 1: {0: ("b", i % 2), 1: ("I", 0xFFFFFFFF - i)}}
                             for i in range(MANY)]}], "s4": [segment()]
        })),
    Attack("executorch-vtable-outside", "executorch", "a table whose vtable is before the file",
           tables(lambda: struct.pack("<i", 0x7FFFFFFF) + bytes(64)), REFUSED),
    Attack("executorch-vtable-65534", "executorch", "a vtable of 65,534 bytes whose fields are one",
           tables(lambda: struct.pack("<iI", -8, 4) + struct.pack("<HH", 65_534, 8) + struct.pack("<H", 4) * 32_765), EITHER),
    Attack("executorch-all-ones", "executorch", "offsets and vtables of all ones", tables(lambda: b"\xff" * 4_096), REFUSED),
    Attack("executorch-segments-of-zeros", "executorch", "64 Mi segments that are zeros, in a zip", list_of_zeros(1), SHOWN),
    Attack("executorch-names-of-zeros", "executorch", "64 Mi named tensors that are zeros, in a zip", list_of_zeros(2), EITHER),
    Attack(
        "executorch-header-wraps", "executorch", "an extended header whose segments begin at 2^64 - 1",
        one_file("m.pte", lambda: (lambda data: data[:24] + b"\xff" * 8 + data[32:])
                 (pte([{2: [value("w", s5=("I", 1))]}], **CONSTANTS)))),
]
