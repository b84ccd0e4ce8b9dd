"""TFLite: FlatBuffers whose tables, names and lists are shared or invalid."""
import os
import struct
import zlib

from attack import EITHER, REFUSED, SHOWN, Attack, one_file, put, sparse
from attacks_zip import RawZip
from limits import CPU_PER_READ_BYTE_S
from flatbuffer import FlatBuffer, Shared
import archives
from zeros import SEGMENT, list_behind_all, zip_of

INT8, STRING = 9, 5


def file_bytes(subgraphs, buffers=(), **more):
    """`more`: fields of the model by "s" and the slot."""
    model = {
        0: ("I", 3), 2: subgraphs, 4: list(buffers) or [{}, {0: ("B", bytes(8))}],
        **{int(slot[1:]): field for slot, field in more.items()}
    }
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


def placed(places, **more):
    """Tensors whose buffers are at (offset, size) behind the FlatBuffer."""
    tensors = [tensor(f"w{i}", (min(size, (1 << 31) - 1),), INT8, i + 1) for i, (_, size) in enumerate(places)]
    return file_bytes([graph(tensors)], [{}] + [{1: ("Q", offset), 2: ("Q", size)} for offset, size in places], **more)


def in_zeros(count, size=SEGMENT, begin=1 << 20):
    """A model in a zip, which ends with zeros, where its tensors are."""
    return zip_of({"m.tflite": lambda: placed([(begin + i * size, size) for i in range(count)]).ljust(begin, b"\0")},
                  {"m.tflite": count * size})


def tables_of_zeros(slot):
    """A model in a zip with a list in this slot whose 64 Mi elements are zeros behind all else."""
    return zip_of({"m.tflite": lambda: list_behind_all(file_bytes([graph([tensor()])], **{f"s{slot}": [{}]}), slot)},
                  {"m.tflite": 16 * SEGMENT})


def text_of_zeros():
    """A text tensor in a zip, whose 64 Mi offsets are zeros."""
    count = 4 * SEGMENT
    data = file_bytes([graph([tensor("s", (count,), STRING)])], [{}, {1: ("Q", 1 << 16), 2: ("Q", 16 * SEGMENT)}])
    return zip_of({"m.tflite": lambda: data.ljust(1 << 16, b"\0") + struct.pack("<I", count)}, {"m.tflite": 16 * SEGMENT})


def with_archive(count):
    """A model with a zip behind it, as associated files, whose entries are one."""
    def build(folder):
        path = os.path.join(folder, "m.tflite")
        with RawZip(path) as out:
            out.bytes_at(file_bytes([graph([tensor()])]))
            data = b"label" * 20_000
            packed = zlib.compress(data, 9)[2:-4]
            at = out.local(b"", packed, archives.DEFLATE)
            for i in range(count):
                out.entry(f"labels{i}.txt", at, len(packed), len(data), archives.DEFLATE, zlib.crc32(data))
        return "m.tflite"
    return build


def external(names, make_files=lambda folder: None):
    """One tensor in each of these files."""
    def build(folder):
        make_files(folder)
        tensors = [tensor(f"w{i}", buffer=0, s10=("I", i + 1)) for i in range(len(names))]
        return put(folder, "m.tflite", file_bytes([graph(tensors)], s8=[{0: name} for name in names],
                                                  s9=[{0: ("I", i + 1), 1: ("I", i), 3: ("Q", 8)} for i in range(len(names))]))
    return build


def linked(names):
    def make(folder):
        put(folder, "w.bin", bytes(64))
        for name in names:
            os.link(os.path.join(folder, "w.bin"), os.path.join(folder, name))
    return make


def external_zeros(count):
    """Tensors in a file of zeros beside the model, in a zip."""
    tensors = [tensor(f"w{i}", (SEGMENT,), buffer=0, s10=("I", i + 1)) for i in range(count)]
    places = [{0: ("I", i + 1), 1: ("I", 0), 2: ("Q", i * SEGMENT), 3: ("Q", SEGMENT)} for i in range(count)]
    return zip_of({"m.tflite": lambda: file_bytes([graph(tensors)], s8=[{0: "w.bin"}], s9=places), "w.bin": lambda: b"w"},
                  {"w.bin": count * SEGMENT})


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
           file(lambda: [graph([Shared(tensor(shape=(-1, )))] * 300_000)])),
    Attack("tflite-shape-shared", "tflite", "50,000 tensors share a shape of 1,000 sizes",
           file(lambda: [graph([tensor(shape=shape, buffer=0) for shape in [Shared(("i", (1, ) * 1_000))] for _ in range(MANY)])])),
    Attack("tflite-subgraph-name-shared", "tflite", "50,000 subgraphs share a name of 1 MB",
           file(lambda: [graph([tensor()], s4=name) for name in [Shared("n" * 1_000_000)] for _ in range(MANY)])),
    Attack("tflite-scales-shared", "tflite", "50,000 tensors share 1,000,000 scales",
           file(lambda: [graph([tensor(s4=scales) for scales in [Shared({2: ("f", bytes(4_000_000))})] for _ in range(MANY)])])),
    Attack(
        "tflite-inputs-shared", "tflite", "50,000 operators share 1,000,000 inputs",
        file(lambda: [graph([tensor()], s3=[{1: inputs} for inputs in [Shared(("i", bytes(4_000_000)))] for _ in range(MANY)])])),
    Attack("tflite-options-shared", "tflite", "1,000,000 operators share the options of a convolution",
           file(lambda: [graph([tensor()], s3=[Shared({3: ("B", 1), 4: {}})] * 1_000_000)])),
    Attack(
        "tflite-option-lists-shared", "tflite", "50,000 operators share a new shape of 100,000 dimensions",
        file(lambda: [
            graph([tensor()], s3=[{3: ("B", 17), 4: shape} for shape in [Shared({0: ("i", bytes(400_000))})] for _ in range(MANY)])
        ])),
    Attack("tflite-operators-shared", "tflite", "1,000,000 operators are one without an operator code: a warning each",
           file(lambda: [graph([tensor()], s3=[Shared({0: ("I", 7)})] * 1_000_000)])),
    Attack(
        "tflite-custom-code-shared", "tflite", "100,000 operator codes share a name of 60,000 bytes",
        file(lambda: [graph([tensor()])],
             s1=lambda: [{0: ("b", 32), 1: name} for name in [Shared("c" * 60_000)] for _ in range(100_000)])),
    Attack("tflite-inputs-of-model", "tflite", "1,000 inputs are one tensor with a name of 60,000 bytes",
           file(lambda: [graph([tensor("n" * 60_000)], s1=("i", (0, ) * 1_000))])),
    Attack("tflite-signatures-shared", "tflite", "100,000 signatures are one with 1,000 inputs",
           file(lambda: [graph([tensor()])], s7=lambda: [Shared({0: [Shared({0: "x"}, 1)] * 1_000})] * 100_000)),
    Attack("tflite-entries-shared", "tflite", "200,000 metadata entries are one text of 4,000 bytes",
           file(lambda: [graph([])], lambda: [{}, {0: ("B", b"t" * 4_000)}], s6=lambda: [Shared({0: "n", 1: ("I", 1)})] * 200_000)),
    Attack("tflite-external-fifo", "tflite", "a tensor in a FIFO", fifo, SHOWN),
    Attack(
        "tflite-external-missing", "tflite", "50,000 tensors in 50,000 files that are missing",
        file(lambda: [graph([tensor(s10=("I", i + 1)) for i in range(MANY)])], s8=lambda: [{0: f"{i}.bin"} for i in range(MANY)],
             s9=lambda: [{0: ("I", i + 1), 1: ("I", i)} for i in range(MANY)])),
    Attack(
        "tflite-strings-shared", "tflite", "1,000 string tensors share a buffer of 100,000 strings",
        file(lambda: [graph([tensor("s", (100_000, ), STRING)] * 1_000)],
             lambda: [{}, {0: ("B", struct.pack("<I", 100_000) + struct.pack("<I", 400_008) * 100_001)}])),
    Attack("tflite-list-2-31", "tflite", "a list of 2^31 - 1 subgraphs", one_file("m.tflite", lambda: claim((1 << 31) - 1)),
           REFUSED),
    Attack("tflite-list-2-32", "tflite", "a list of 2^32 - 1 subgraphs", one_file("m.tflite", lambda: claim((1 << 32) - 1)),
           REFUSED),
    Attack("tflite-offset-to-itself", "tflite", "offsets that lead in a circle",
           one_file("m.tflite", lambda: struct.pack("<I4s", 8, b"TFL3") + struct.pack("<I", 4) * 64), REFUSED),
    Attack("tflite-hole", "tflite", "3 GB, mostly a hole", sparse("m.tflite", lambda: file_bytes([graph([tensor()])]),
                                                                  3_000_000_000)),
    Attack(
        "tflite-pages", "tflite", "20,000 tensors whose tables are in pages far apart",
        file(lambda: [graph([tensor(f"w{i}", (4_096, ), INT8, i + 1) for i in range(20_000)])],
             lambda: [{}] + [{0: ("B", bytes(4_096))} for _ in range(20_000)])),
    Attack("tflite-buffers-wrap", "tflite", "buffers at 2^64 - 1 and of 2^64 - 1 bytes",
           one_file("m.tflite", lambda: placed([((1 << 64) - 1, 2), (64, (1 << 64) - 1), ((1 << 63) - 1, 1 << 63)])), SHOWN),
    Attack("tflite-buffers-overlap", "tflite", "50,000 buffers that share bytes",
           one_file("m.tflite", lambda: placed([(64 + i, 64) for i in range(MANY)]))),
    Attack("tflite-buffer-of-the-tables", "tflite", "a tensor that is the whole file",
           one_file("m.tflite", lambda: placed([(2, 200)]))),
    Attack("tflite-shape-2-64", "tflite", "shapes that overflow",
           file(lambda: [graph([tensor("a", (
               (1 << 31) - 1, ) * 3), tensor("b", (0, ) + ((1 << 31) - 1, ) * 30)])])),
    Attack("tflite-shape-long", "tflite", "a shape of 2,000,000 sizes", file(lambda: [graph([tensor(shape=(1, ) * 2_000_000)])])),
    Attack(
        "tflite-tensors-tiny", "tflite", "60,000 tensors of a byte with buffers and names of their own",
        file(lambda: [graph([tensor(f"w{i}", (1, ), INT8, i + 1) for i in range(60_000)])],
             lambda: [{}] + [{0: ("B", b"x")} for _ in range(60_000)])),
    Attack("tflite-names-equal", "tflite", "100,000 tensors with one name",
           file(lambda: [graph([tensor() for _ in range(100_000)])])),
    Attack("tflite-names-long", "tflite", "50 tensors with names of 60,000 bytes that differ at the end",
           file(lambda: [graph([tensor("n" * 60_000 + str(i)) for i in range(50)])])),
    Attack("tflite-subgraphs-of-one-name", "tflite", "30,000 subgraphs with one name and a tensor each",
           file(lambda: [graph([tensor()], s4="g") for _ in range(30_000)])),
    Attack("tflite-subgraphs-named-numbers", "tflite", "30,000 subgraphs that are named as the numbers of others",
           file(lambda: [graph([tensor()], s4=str(i + 1)) for i in range(30_000)])),
    Attack("tflite-vtable-outside", "tflite", "a table whose vtable is before the file",
           one_file("m.tflite", lambda: struct.pack("<I4si", 8, b"TFL3", 0x7FFFFFFF) + bytes(64)), REFUSED),
    Attack("tflite-vtable-of-all-ones", "tflite", "offsets and vtables of all ones",
           one_file("m.tflite", lambda: struct.pack("<I4s", 8, b"TFL3") + b"\xff" * 4_096), REFUSED),
    Attack(
        "tflite-vtable-65534", "tflite", "a vtable of 65,534 bytes whose fields are one",
        one_file(
            "m.tflite", lambda: struct.pack("<I4s", 65_600, b"TFL3") + bytes(58) + struct.pack("<HH", 65_534, 8) + struct.pack(
                "<H", 4) * 32_765 + struct.pack("<iI", 65_534, 4) + struct.pack("<I", 0)), EITHER),
    Attack("tflite-list-of-zeros", "tflite", "64 Mi subgraphs that are zeros, in a zip", tables_of_zeros(2), EITHER),
    Attack("tflite-buffers-of-zeros", "tflite", "64 Mi buffers that are zeros, in a zip", tables_of_zeros(4), EITHER),
    Attack("tflite-codes-of-zeros", "tflite", "64 Mi operator codes that are zeros, in a zip", tables_of_zeros(1), EITHER),
    Attack("tflite-tensors-of-zeros", "tflite", "48 tensors of 16 MiB of zeros each, in a zip of 800 kB", in_zeros(48)),
    Attack("tflite-tensors-of-zeros-readers", "tflite", "24 of them, and six readers", in_zeros(24), readers=6),
    Attack("tflite-texts-of-zeros", "tflite", "a tensor of 64 Mi empty texts, in a zip", text_of_zeros()),
    Attack("tflite-associated-shared", "tflite", "20,000 associated files are one", with_archive(20_000)),
    Attack("tflite-external-linked", "tflite", "2,000 names of one external file",
           external([f"w{i}.bin" for i in range(2_000)], linked([f"w{i}.bin" for i in range(2_000)]))),
    Attack("tflite-external-outside", "tflite", "external files outside of the directory",
           external(["../../../../../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../x", "/dev/zero"]), SHOWN),
    Attack("tflite-external-itself", "tflite", "an external file that is the model", external(["m.tflite"]), SHOWN),
    Attack("tflite-external-zeros", "tflite", "48 tensors of 16 MiB in an external file of zeros, in a zip", external_zeros(48),
           cpu=48 * (16 << 20) * CPU_PER_READ_BYTE_S),
    Attack(
        "tflite-custom-options-shared", "tflite", "20,000 operators share custom options of 1 MB",
        file(lambda: [graph([tensor()], s3=[{5: options} for options in [Shared(("B", bytes(1_000_000)))] for _ in range(20_000)])],
             s1=lambda: [{0: ("b", 32), 1: "c"}])),
    Attack("tflite-signature-names", "tflite", "20,000 inputs of a signature with one name",
           file(lambda: [graph([tensor()])], s7=lambda: [{0: [{0: "x", 1: ("I", i)} for i in range(20_000)]}])),
    Attack("tflite-scales", "tflite", "a tensor with 3,000,000 scales",
           file(lambda: [graph([tensor(s4={2: ("f", bytes(12_000_000)), 3: ("q", bytes(8_000_000))})])])),
]
