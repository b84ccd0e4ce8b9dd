"""TFLite: FlatBuffers whose tables, names and lists are shared or invalid."""
import os
import struct

from attack import REFUSED, SHOWN, Attack, one_file, put, sparse
from flatbuffer import FlatBuffer, Shared

INT8, STRING = 9, 5


def file_bytes(subgraphs, buffers=(), **more):
    """`more`: fields of the model by "s" and the slot."""
    model = {0: ("I", 3), 2: subgraphs, 4: list(buffers) or [{}, {0: ("B", bytes(8))}], **{int(slot[1:]): field for slot, field in more.items()}}
    return with_identifier(FlatBuffer(model).bytes)


def with_identifier(data):
    """Moves a FlatBuffer, whose offsets are relative, behind an identifier."""
    root = struct.unpack_from("<I", data)[0]
    return struct.pack("<I4sQ", root + 12, b"TFL3", 0) + bytes(data[4:])


def file(*args, **more):
    return one_file("m.tflite", lambda: file_bytes(*(make() for make in args), **{slot: make() for slot, make in more.items()}))


def tensor(name="w", shape=(8,), kind=INT8, buffer=1, **more):
    return {0: shape if isinstance(shape, Shared) else ("i", tuple(shape)), 1: ("b", kind), 2: ("I", buffer), 3: name,
            **{int(slot[1:]): field for slot, field in more.items()}}


def graph(tensors, **more):
    return {0: tensors, **{int(slot[1:]): field for slot, field in more.items()}}


def claim(count):
    """A list of subgraphs that claims a length."""
    data = bytearray(file_bytes([graph([tensor()])]))
    at = data.find(struct.pack("<I", 1), 60)
    data[at:at + 4] = struct.pack("<I", count)
    return bytes(data)


def fifo(folder):
    os.mkfifo(os.path.join(folder, "fifo"))
    graph_of_one = graph([tensor(buffer=0, s10=("I", 1))])
    return put(folder, "m.tflite", file_bytes([graph_of_one], s8=[{0: "fifo"}], s9=[{0: ("I", 1), 1: ("I", 0), 3: ("Q", 8)}]))


MANY = 50_000

ATTACKS = [
    Attack("tflite-tables-shared", "tflite", "200 subgraphs are one table of 12,500 tensors that are one table",
           file(lambda: [Shared(graph([Shared(tensor(), 1)] * 12_500))] * 200)),
    Attack("tflite-activations-shared", "tflite", "200 subgraphs are one table of 12,500 activations that are one table",
           file(lambda: [Shared(graph([Shared(tensor(buffer=0), 1)] * 12_500))] * 200)),
    Attack("tflite-subgraphs-shared", "tflite", "1,000,000 subgraphs are one empty table",
           file(lambda: [Shared(graph([]))] * 1_000_000)),
    Attack("tflite-name-shared", "tflite", "50,000 tensors share a name of 60,000 bytes",
           file(lambda: [graph([tensor(name) for name in [Shared("n" * 60_000)] for _ in range(MANY)])])),
    Attack("tflite-name-shared-by-activations", "tflite", "50,000 activations share a name of 60,000 bytes",
           file(lambda: [graph([tensor(name, buffer=0) for name in [Shared("n" * 60_000)] for _ in range(MANY)])])),
    Attack("tflite-bad-tensor-shared", "tflite", "300,000 tensors are one bad tensor: a warning each",
           file(lambda: [graph([Shared(tensor(shape=(-1,)))] * 300_000)])),
    Attack("tflite-shape-shared", "tflite", "50,000 tensors share a shape of 1,000 sizes",
           file(lambda: [graph([tensor(shape=shape, buffer=0) for shape in [Shared(("i", (1,) * 1_000))] for _ in range(MANY)])])),
    Attack("tflite-subgraph-name-shared", "tflite", "50,000 subgraphs share a name of 1 MB",
           file(lambda: [graph([tensor()], s4=name) for name in [Shared("n" * 1_000_000)] for _ in range(MANY)])),
    Attack("tflite-scales-shared", "tflite", "50,000 tensors share 1,000,000 scales",
           file(lambda: [graph([tensor(s4=scales) for scales in [Shared({2: ("f", bytes(4_000_000))})] for _ in range(MANY)])])),
    Attack("tflite-inputs-shared", "tflite", "50,000 operators share 1,000,000 inputs",
           file(lambda: [graph([tensor()], s3=[{1: inputs} for inputs in [Shared(("i", bytes(4_000_000)))] for _ in range(MANY)])])),
    Attack("tflite-options-shared", "tflite", "1,000,000 operators share the options of a convolution",
           file(lambda: [graph([tensor()], s3=[Shared({3: ("B", 1), 4: {}})] * 1_000_000)])),
    Attack("tflite-option-lists-shared", "tflite", "50,000 operators share a new shape of 100,000 dimensions",
           file(lambda: [graph([tensor()], s3=[{3: ("B", 17), 4: shape} for shape in [Shared({0: ("i", bytes(400_000))})] for _ in range(MANY)])])),
    Attack("tflite-operators-shared", "tflite", "1,000,000 operators are one without an operator code: a warning each",
           file(lambda: [graph([tensor()], s3=[Shared({0: ("I", 7)})] * 1_000_000)])),
    Attack("tflite-custom-code-shared", "tflite", "100,000 operator codes share a name of 60,000 bytes",
           file(lambda: [graph([tensor()])], s1=lambda: [{0: ("b", 32), 1: name} for name in [Shared("c" * 60_000)] for _ in range(100_000)])),
    Attack("tflite-inputs-of-model", "tflite", "1,000 inputs are one tensor with a name of 60,000 bytes",
           file(lambda: [graph([tensor("n" * 60_000)], s1=("i", (0,) * 1_000))])),
    Attack("tflite-signatures-shared", "tflite", "100,000 signatures are one with 1,000 inputs",
           file(lambda: [graph([tensor()])], s7=lambda: [Shared({0: [Shared({0: "x"}, 1)] * 1_000})] * 100_000)),
    Attack("tflite-entries-shared", "tflite", "200,000 metadata entries are one text of 4,000 bytes",
           file(lambda: [graph([])], lambda: [{}, {0: ("B", b"t" * 4_000)}], s6=lambda: [Shared({0: "n", 1: ("I", 1)})] * 200_000)),
    Attack("tflite-external-fifo", "tflite", "a tensor in a FIFO", fifo, SHOWN),
    Attack("tflite-external-missing", "tflite", "50,000 tensors in 50,000 files that are missing",
           file(lambda: [graph([tensor(s10=("I", i + 1)) for i in range(MANY)])],
                s8=lambda: [{0: f"{i}.bin"} for i in range(MANY)], s9=lambda: [{0: ("I", i + 1), 1: ("I", i)} for i in range(MANY)])),
    Attack("tflite-strings-shared", "tflite", "1,000 string tensors share a buffer of 100,000 strings",
           file(lambda: [graph([tensor("s", (100_000,), STRING)] * 1_000)],
                lambda: [{}, {0: ("B", struct.pack("<I", 100_000) + struct.pack("<I", 400_008) * 100_001)}])),
    Attack("tflite-list-2-31", "tflite", "a list of 2^31 - 1 subgraphs", one_file("m.tflite", lambda: claim((1 << 31) - 1)), REFUSED),
    Attack("tflite-list-2-32", "tflite", "a list of 2^32 - 1 subgraphs", one_file("m.tflite", lambda: claim((1 << 32) - 1)), REFUSED),
    Attack("tflite-offset-to-itself", "tflite", "offsets that lead in a circle",
           one_file("m.tflite", lambda: struct.pack("<I4s", 8, b"TFL3") + struct.pack("<I", 4) * 64), REFUSED),
    Attack("tflite-hole", "tflite", "3 GB, mostly a hole", sparse("m.tflite", lambda: file_bytes([graph([tensor()])]), 3_000_000_000)),
    Attack("tflite-pages", "tflite", "20,000 tensors whose tables are in pages far apart",
           file(lambda: [graph([tensor(f"w{i}", (4_096,), INT8, i + 1) for i in range(20_000)])],
                lambda: [{}] + [{0: ("B", bytes(4_096))} for _ in range(20_000)])),
]
