"""ORT: FlatBuffers whose graphs, tensors and texts are shared. NNEF: tensor files and graphs that lie."""
import struct

from attack import REFUSED, SHOWN, Attack, one_file, pack
from attacks_tar import END, member
from flatbuffer import FlatBuffer, Shared

UINT8, STRING = 2, 8


def file(make):
    """`make`: the graph."""
    def bytes_of():
        data = FlatBuffer({0: "5", 1: {0: ("q", 8), 7: make()}}).bytes
        root = struct.unpack_from("<I", data)[0]
        return struct.pack("<I4sQ", root + 12, b"ORTM", 0) + bytes(data[4:])
    return one_file("m.ort", bytes_of)


def tensor(name="w", dims=(1,), kind=UINT8, data=b"x", **more):
    other = {int(slot[1:]): field for slot, field in more.items()}
    return {0: name, 2: ("q", tuple(dims)), 3: ("i", kind), 4: ("B", data), **other}


def doubled(levels):
    """Graphs in graphs: each is shared by two attributes of a node of the next."""
    graph = {0: [tensor()]}
    for level in range(levels, 0, -1):
        shared = Shared(graph, level)
        graph = {2: [{5: "If", 10: [{0: "a", 7: shared}, {0: "b", 7: shared}]}]}
    return graph


def nnef(graph, *members):
    return one_file("m.tar", lambda: member(b"graph.nnef", graph()) + b"".join(member(*each) for each in members) + END)


def dat(size, dims, bits=8, kind=1, data=b""):
    return (b"\x4E\xEF\1\0" + pack("II", size, len(dims)) + b"".join(pack("I", each) for each in dims)).ljust(44, b"\0") + pack(
        "IH", bits, kind) + bytes(78) + data


ATTACKS = [
    Attack("ort-graphs-shared", "ort", "2^30 graphs of 30 tables", file(lambda: doubled(30))),
    Attack("ort-tensors-shared", "ort", "1,000,000 tensors of one table", file(lambda: {0: [Shared(tensor())] * 1_000_000})),
    Attack("ort-names-shared", "ort", "100,000 tensors with one name of 60 KB",
           file(lambda: {0: [tensor(name) for name in [Shared("n" * 60_000)] for _ in range(100_000)]})),
    Attack("ort-texts-shared", "ort", "200 tensors of 100,000 texts of 60 KB, which are one",
           file(lambda: {0: [tensor(f"t{i}", (100_000,), STRING, b"", s5=texts)
                             for texts in [Shared([Shared("n" * 60_000, 1)] * 100_000)] for i in range(200)]})),
    Attack("ort-dims", "ort", "4,000 tensors of 1,024 dimensions",
           file(lambda: {0: [Shared(tensor(dims=(1,) * 1024))] * 4_000})),
    Attack("ort-size-overflows", "ort", "a shape of 2^126 elements", file(lambda: {0: [tensor(dims=((1 << 63) - 1,) * 2)]}), SHOWN),
    Attack("ort-inputs", "ort", "1,000,000 inputs", file(lambda: {5: [Shared("x")] * 1_000_000}), SHOWN),
    Attack("nnef-size", "nnef", "a tensor of 4 GiB in a file of 128 bytes",
           nnef(lambda: b"graph g(x) -> (y) {}", (b"w.dat", dat((1 << 32) - 1, ((1 << 32) - 1,)))), SHOWN),
    Attack("nnef-variables", "nnef", "1,000,000 variables without files",
           nnef(lambda: b"graph g(x) -> (y) {" + b"w=v(label='a');" * 1_000_000 + b"}")),
    Attack("nnef-operations", "nnef", "1,000,000 operations of as many names",
           nnef(lambda: b"graph g(x) -> (y) {" + b"".join(b"a=f%d();" % i for i in range(1_000_000)) + b"}")),
    Attack("nnef-text", "nnef", "a text that does not end, and 10,000,000 brackets",
           nnef(lambda: b"graph g(x) -> (y) {" + b"(" * 10_000_000 + b"\"")),
    Attack("nnef-tensor-dims", "nnef-tensor", "a shape of 2^256 elements",
           one_file("w.dat", lambda: dat(1, ((1 << 32) - 1,) * 8, data=b"x")), REFUSED),
]
