"""RTen: FlatBuffers whose tables, strings and vectors are shared, invalid or recursive; holes."""
import struct

from attack import REFUSED, Attack, one_file, put, sparse
from flatbuffer import FlatBuffer, Shared

OPERATOR, CONSTANT, VALUE = 1, 2, 3
ADD, EINSUM, IF, LOOP = 0, 103, 104, 116
EINSUM_ATTRS, IF_ATTRS, LOOP_ATTRS = 38, 39, 49


def version_2(root, data=b""):
    model = bytes(FlatBuffer(root).bytes)
    return struct.pack("<4sIQQQ", b"RTEN", 2, 32, len(model), 32 + len(model)) + model + data


def root(nodes, inputs=(), outputs=(), metadata=None):
    return {0: ("i", 1), 1: graph(nodes, inputs, outputs), 2: metadata}


def graph(nodes, inputs=(), outputs=()):
    return {0: nodes, 1: ("I", tuple(inputs)), 2: ("I", tuple(outputs))}


def file(nodes, **fields):
    return one_file("m.rten", lambda: version_2(root(nodes(), **fields), bytes(64)))


def holed(nodes):
    """A version 1 file that ends with a hole, so it takes little disk space."""
    return sparse("m.rten", lambda: bytes(FlatBuffer(root(nodes())).bytes), 1_000_000_000)


def constant(name, shape=(1,), offset=0):
    return {
        0: name, 1: ("B", CONSTANT),
        2: {0: ("I", tuple(shape)) if isinstance(shape, tuple) else shape, 3: ("H", 2), 4: ("Q", offset)}
    }


def inline(name, data):
    return {0: name, 1: ("B", CONSTANT), 2: {0: ("I", (16,)), 1: ("B", 3), 2: data}}


def value(name, dimensions):
    return {0: name, 1: ("B", VALUE), 2: {0: dimensions, 1: ("B", 1)}}


def operator(name, kind=ADD, inputs=(), attributes=0, table=None):
    return {
        0: name, 1: ("B", OPERATOR),
        2: {0: ("B", kind), 1: ("B", attributes), 2: table, 3: inputs if isinstance(inputs, Shared) else ("i", tuple(inputs))}
    }


def branches(depth, width=2, level=0):
    """An `If` whose branches are one graph, whose operators are one `If`, and so on: width^depth paths."""
    inner = branches(depth - 1, width, level + 1) if depth > 0 else None
    nodes = [operator(f"if{i}", IF, (), IF_ATTRS, {0: inner, 1: inner}) for i in range(width // 2)] if inner else [constant("w")]
    return Shared(graph(nodes), level)


def chain(depth):
    """Graphs in graphs, each once."""
    inner = graph([constant("w")])
    for _ in range(depth):
        inner = graph([operator("loop", LOOP, (), LOOP_ATTRS, {0: inner})])
    return inner[0]


def raw(vector):
    """A minimal model whose list of nodes claims a length."""
    model = bytearray(FlatBuffer(root([constant("w")])).bytes)
    at = model.find(struct.pack("<I", 1), 40)
    model[at:at + 4] = struct.pack("<I", vector)
    return struct.pack("<4sIQQQ", b"RTEN", 2, 32, len(model), 32 + len(model)) + bytes(model)


def to_itself(folder):
    model = struct.pack("<I", 4) * 64
    return put(folder, "m.rten", struct.pack("<4sIQQQ", b"RTEN", 2, 32, len(model), 32 + len(model)) + model)


def hole_tensor():
    model = bytearray(FlatBuffer(root([inline("w", {0: ("f", (0.0,) * 16)})])).bytes)
    at = model.rfind(struct.pack("<I", 16))
    model[at:at + 4] = struct.pack("<I", 300_000_000)
    return bytes(model)


LONG = "n" * 1_000_000
ONE = {0: ("f", (0.0,) * 16)}

ATTACKS = [
    Attack("rten-name-shared", "rten", "20,000 nodes share a name of 1 MB",
           file(lambda: [constant(name) for name in [Shared(LONG)] for _ in range(20_000)])),
    # The limit on text grows with the file, and a hole makes it large.
    Attack("rten-hole-name-shared", "rten-v1", "240 constants share a name of 1 MB, in a file with a hole of 1 GB",
           holed(lambda: [inline(name, ONE) for name in [Shared(LONG)] for _ in range(240)])),
    Attack("rten-hole-name-shared-by-operators", "rten-v1", "240 operators share a name of 1 MB, in a file with a hole",
           holed(lambda: [operator(name) for name in [Shared(LONG)] for _ in range(240)])),
    Attack("rten-hole-name-shared-escapes", "rten-v1",
           "240 values share a name of 1 MB of control characters, in a file with a hole",
           holed(lambda: [value(name, []) for name in [Shared("\1" * 1_000_000)] for _ in range(240)])),
    Attack("rten-hole-name-shared-slashes", "rten-v1", "240 constants share a name of 500,000 components, in a file with a hole",
           holed(lambda: [inline(name, ONE) for name in [Shared("a/" * 500_000)] for _ in range(240)])),
    Attack("rten-hole-node-shared", "rten-v1", "2,000,000 nodes are one constant, in a file with a hole",
           holed(lambda: [Shared(inline("w", ONE))] * 2_000_000)),
    Attack(
        "rten-hole-graph-shared", "rten-v1", "3,000 operators share one graph of 1,000 constants, in a file with a hole",
        holed(lambda: [
            operator("o", LOOP, (), LOOP_ATTRS, {0: inner})
            for inner in [Shared(graph([inline(f"w{i}", ONE) for i in range(1_000)]))] for _ in range(3_000)
        ])),
    Attack("rten-hole-shape-shared", "rten-v1", "50,000 constants share a shape of 1,000 sizes, in a file with a hole",
           holed(lambda: [Shared({0: "w", 1: ("B", CONSTANT), 2: {0: ("I", (1, ) * 1_000), 1: ("B", 3), 2: ONE}})] * 50_000)),
    Attack("rten-name-shared-short", "rten", "20,000 nodes share a name of 10 KB",
           file(lambda: [constant(name) for name in [Shared("n" * 10_000)] for _ in range(20_000)])),
    Attack("rten-name-shared-by-values", "rten", "20,000 values share a name of 100 KB",
           file(lambda: [value(name, []) for name in [Shared("v" * 100_000)] for _ in range(20_000)])),
    Attack("rten-name-shared-escapes", "rten", "20,000 operators share a name of 60,000 control characters",
           file(lambda: [operator(name) for name in [Shared("\1" * 60_000)] for _ in range(20_000)])),
    Attack("rten-node-shared", "rten", "500,000 nodes are one constant", file(lambda: [Shared(constant("w"))] * 500_000)),
    Attack("rten-node-shared-refused", "rten", "300,000 nodes are one bad constant: a warning each",
           file(lambda: [Shared(constant("w", offset=1 << 60))] * 300_000)),
    Attack("rten-node-shared-inline", "rten", "300,000 nodes are one constant with its data",
           file(lambda: [Shared(inline("w", {0: ("f", (0.0, ) * 16)}))] * 300_000)),
    Attack("rten-shape-shared", "rten", "20,000 constants share a shape of 1,000 sizes",
           file(lambda: [constant(f"w{i}", shape) for shape in [Shared(("I", (1, ) * 1_000))] for i in range(20_000)])),
    Attack(
        "rten-dimensions-shared", "rten", "20,000 values share 1,000 dimensions that share a name",
        file(lambda: [
            value(f"v{i}", shape) for shape in [Shared([Shared({1: Shared("d" * 10_000, 3)}, 2)] * 1_000, 1)] for i in range(20_000)
        ])),
    Attack(
        "rten-inputs-shared", "rten", "10,000 operators share a list of 100,000 inputs",
        file(lambda: [constant("w")] +
             [operator(f"o{i}", inputs=inputs) for inputs in [Shared(("i", (0, ) * 100_000))] for i in range(10_000)])),
    Attack(
        "rten-equation-shared", "rten", "10,000 operators share an equation of 500 KB",
        file(lambda: [
            operator(f"o{i}", EINSUM, (), EINSUM_ATTRS, table) for table in [Shared({0: Shared("ij," * 170_000, 2)}, 1)]
            for i in range(10_000)
        ])),
    Attack(
        "rten-graph-shared", "rten", "10,000 operators share one graph of 1,000 constants",
        file(lambda: [
            operator("o", LOOP, (), LOOP_ATTRS, {0: inner}) for inner in [Shared(graph([constant(f"w{i}") for i in range(1_000)]))]
            for _ in range(10_000)
        ])),
    Attack("rten-graphs-doubling", "rten", "branches that are one graph, 13 levels: 2^13 paths and more",
           file(lambda: [operator("if", IF, (), IF_ATTRS, {0: branches(13)})])),
    Attack("rten-graphs-times-8", "rten", "branches that are one graph, 12 levels of 8: 8^12 paths",
           file(lambda: [operator("if", IF, (), IF_ATTRS, {0: branches(12, 8)})])),
    Attack("rten-graphs-deep", "rten", "graphs in graphs, 1,500 deep", file(lambda: chain(1_500))),
    Attack("rten-graphs-15-deep", "rten", "graphs in graphs, 15 deep, with a name of 1 MB in each",
           file(lambda: [{**node, 0: Shared(LONG)} for node in chain(14)])),
    Attack("rten-metadata-shared", "rten", "eight metadata fields share a text of 1 MB",
           file(lambda: [constant("w")], metadata={slot: text for text in [Shared("\1" * 1_000_000)] for slot in range(8)})),
    Attack("rten-inputs-of-model", "rten", "300,000 inputs of the model are one node with a name of 10 KB",
           file(lambda: [value("v" * 10_000, [])], inputs=(0, ) * 300_000)),
    Attack("rten-inputs-missing", "rten", "500,000 inputs that are no node: a warning each",
           file(lambda: [constant("w")], inputs=(9, ) * 500_000)),
    Attack("rten-unknown-operators", "rten", "10,000 unknown operators with unknown attributes",
           file(lambda: [operator(f"o{i}", 200 + i % 50, (5, ), 200, {0: ("I", 1)}) for i in range(10_000)])),
    Attack("rten-vector-2-31", "rten", "a list of 2^31 nodes", one_file("m.rten", lambda: raw(1 << 31)), REFUSED),
    Attack("rten-vector-2-32", "rten", "a list of 2^32 - 1 nodes", one_file("m.rten", lambda: raw((1 << 32) - 1)), REFUSED),
    Attack("rten-offset-to-itself", "rten", "offsets that lead in a circle", to_itself, REFUSED),
    Attack("rten-header-lies", "rten", "model data of 2^64 - 1 bytes",
           one_file("m.rten", lambda: struct.pack("<4sIQQQ", b"RTEN", 2, 32, (1 << 64) - 1, 32) + bytes(100)), REFUSED),
    Attack("rten-hole-version-2", "rten", "model data of 1.5 GB in a hole",
           sparse("m.rten", lambda: struct.pack("<4sIQQQ", b"RTEN", 2, 32, 1_500_000_000, 32) + b"\x04", 1_600_000_000)),
    Attack("rten-hole-version-1", "rten-v1", "a version 1 file of 1.5 GB, mostly a hole",
           sparse("m.rten", lambda: bytes(FlatBuffer(root([constant("w")])).bytes), 1_500_000_000)),
    Attack("rten-hole-one-tensor", "rten-v1", "an inline tensor of 1.5 GB in a hole", sparse("m.rten", hole_tensor, 1_500_000_000)),
    Attack(
        "rten-v1-name-shared", "rten-v1", "10,000 nodes share a name of 1 MB, version 1",
        one_file(
            "m.rten", lambda: bytes(
                FlatBuffer(root([inline(name, {0: ("f", (0.0, ) * 16)}) for name in [Shared(LONG)]
                                 for _ in range(10_000)])).bytes))),
    Attack("rten-names-31-components", "rten", "10,000 constants' names of 31 components",
           file(lambda: [constant(f"{i}/" + "a/" * 29 + "w") for i in range(10_000)])),
    Attack("rten-names-repeated", "rten", "15,000 constants of one name", file(lambda: [constant("same") for _ in range(15_000)])),
    Attack("rten-dimensions-1024", "rten", "500 constants of 1,024 dimensions",
           file(lambda: [constant(f"w{i}", (1, ) * 1_024) for i in range(500)])),
]
