"""ONNX: messages nested deep, lengths that lie, many small records, names above many subgraphs, external data."""
import hashlib
import os
import zlib

from attack import REFUSED, SHOWN, Attack, one_file, put, sparse
from attacks_zip import DEFLATE, STORED, zipped
from limits import CPU_PER_READ_BYTE_S
from protobuf import (data, number, onnx_external, onnx_graph, onnx_model, onnx_node, onnx_tensor, varint)

FLOAT, UINT8, INT32, INT64, STRING = 1, 2, 6, 7, 8


def file(graph):
    return one_file("m.onnx", lambda: onnx_model(graph()))


def nested(depth, name=""):
    """Graphs in graphs."""
    graph = onnx_graph([onnx_tensor("w", UINT8, (1,), data(9, b"x"))])
    for _ in range(depth):
        graph = onnx_graph(nodes=[onnx_node("Loop", (), ("o",), data(1, "body") + data(6, graph), name=name)])
    return graph


def wide(levels, width):
    """Subgraphs beside each other, and in each of them the next level."""
    graph = onnx_graph([onnx_tensor("w", UINT8, (1,), data(9, b"x"))])
    for _ in range(levels):
        graph = onnx_graph(nodes=[onnx_node("If", (), ("o",), data(1, "b") + data(6, graph))] * width)
    return graph


def under_long_names(count):
    """A node with a long name above many subgraphs."""
    inner = onnx_graph(nodes=[onnx_node("If", (), ("o",), data(1, "b") + data(6, b""))] * count)
    return onnx_graph(nodes=[onnx_node("Loop", (), (), data(1, "body") + data(6, inner), name="n" * 60_000)])


def holed(head, length):
    """A field of `length` bytes in a hole at the end of the file, inside the messages of `head`."""
    def build(folder):
        inside = head + varint(length)
        tensor = varint(5 << 3 | 2) + varint(len(inside) + length) + inside
        whole = number(1, 8) + varint(7 << 3 | 2) + varint(len(tensor) + length) + tensor
        put(folder, "m.onnx", whole)
        os.truncate(os.path.join(folder, "m.onnx"), len(whole) + length)
        return "m.onnx"
    return build


def external(entries, make=lambda folder: None):
    def build(folder):
        make(folder)
        return put(folder, "m.onnx", onnx_model(onnx_graph([onnx_external("w", UINT8, (4,), **entries)])))
    return build


def with_checksums(count):
    """A zip: a model that has a SHA-1 of each of `count` files of 10 MiB, which are one member, 10 KB compressed."""
    zeros = bytes(10 << 20)
    sha1 = hashlib.sha1(zeros).hexdigest()

    def fill(out):
        tensors = [onnx_external(f"w{i}", UINT8, (4,), location=f"{i}.bin", checksum=sha1) for i in range(count)]
        model = onnx_model(onnx_graph(tensors))
        out.entry("m.onnx", out.local(b"m.onnx", model, STORED), len(model), len(model), STORED, zlib.crc32(model), 0o100644)
        packed, crc = zlib.compress(zeros, 9)[2:-4], zlib.crc32(zeros)
        at = out.local(b"", packed, DEFLATE)
        for i in range(count):
            out.entry(f"{i}.bin", at, len(packed), len(zeros), DEFLATE, crc, 0o100644)
    return zipped(fill)


def many_files(folder):
    tensors = [onnx_external(f"w{i}", UINT8, (1,), location=f"none/{i}") for i in range(100_000)]
    return put(folder, "m.onnx", onnx_model(onnx_graph(tensors)))


TYPED = onnx_tensor("w", UINT8, (1 << 20,), data(5, b"\1" * (1 << 20)))

ATTACKS = [
    Attack("onnx-empty-initializers", "onnx", "500,000 initializers of two bytes", file(lambda: data(5, b"") * 500_000)),
    Attack("onnx-empty-nodes", "onnx", "500,000 nodes of two bytes", file(lambda: data(1, b"") * 500_000)),
    Attack("onnx-empty-attributes", "onnx", "a node with 500,000 attributes of two bytes",
           file(lambda: data(1,
                             data(5, b"") * 500_000))),
    Attack("onnx-empty-inputs", "onnx", "1,000,000 inputs of two bytes", file(lambda: data(11, b"") * 1_000_000)),
    Attack(
        "onnx-empty-functions", "onnx", "500,000 functions of three bytes",
        one_file("m.onnx", lambda: onnx_model(onnx_graph(),
                                              varint(25 << 3 | 2) + b"\0") + (varint(25 << 3 | 2) + b"\0") * 500_000)),
    Attack("onnx-graphs-merged", "onnx", "the graph in 300,000 parts",
           one_file("m.onnx", lambda: onnx_model(onnx_graph()) + data(7, data(2, b"")) * 300_000)),
    Attack("onnx-graphs-deep", "onnx", "10,000 graphs in graphs", file(lambda: nested(10_000)), REFUSED),
    Attack("onnx-graphs-32-deep", "onnx", "32 graphs in graphs, with a name of 60 KB in each",
           file(lambda: nested(32, "n" * 60_000))),
    Attack("onnx-graphs-wide", "onnx", "subgraphs beside each other, 8 levels of 4", file(lambda: wide(8, 4))),
    Attack("onnx-long-name-above-subgraphs", "onnx", "a name of 60 KB above 500,000 subgraphs",
           file(lambda: under_long_names(500_000))),
    Attack("onnx-groups-deep", "onnx", "1,000,000 groups in groups",
           one_file("m.onnx", lambda: onnx_model(onnx_graph()) + b"\x0b" * 1_000_000), REFUSED),
    Attack("onnx-dimensions", "onnx", "2,000,000 dimensions of 1",
           file(lambda: data(5, onnx_tensor("w", UINT8, (), data(1, b"\1" * 2_000_000))))),
    Attack("onnx-dimensions-1024", "onnx", "2,000 tensors of 1,024 dimensions",
           file(lambda: data(5, onnx_tensor("w", UINT8, (), data(1, b"\1" * 1024), data(9, b"x"))) * 2_000)),
    Attack("onnx-varints", "onnx", "20 tensors of 1 MiB of varints", file(lambda: data(5, TYPED) * 20)),
    Attack("onnx-varints-int64", "onnx", "8,000,000 varints, which become 64 MB",
           file(lambda: data(5, onnx_tensor("w", INT64, (8_000_000, ), data(7, b"\1" * 8_000_000))))),
    Attack("onnx-varints-unpacked", "onnx", "1,000,000 numbers with a tag each",
           file(lambda: data(5, onnx_tensor("w", INT32, (1_000_000, ),
                                            number(5, 1) * 1_000_000)))),
    Attack("onnx-strings", "onnx", "1,000,000 empty strings",
           file(lambda: data(5, onnx_tensor("w", STRING, (1_000_000, ),
                                            data(6, b"") * 1_000_000)))),
    Attack("onnx-sparse", "onnx", "200,000 empty sparse tensors", file(lambda: data(15, b"") * 200_000)),
    Attack("onnx-names", "onnx", "15,000 initializers of one name of 31 components",
           file(lambda: data(5, onnx_tensor("a/" * 30 + "w", UINT8, (1, ), data(9, b"x"))) * 15_000)),
    Attack("onnx-names-escapes", "onnx", "100 nodes with a name of 60,000 control characters",
           file(lambda: onnx_graph(nodes=[onnx_node("\1" * 60_000, name="\1" * 60_000)] * 100))),
    Attack("onnx-operators", "onnx", "200,000 different operators",
           file(lambda: onnx_graph(nodes=[onnx_node(f"op{i}") for i in range(200_000)]))),
    Attack("onnx-metadata", "onnx", "500,000 empty properties",
           one_file("m.onnx", lambda: onnx_model(onnx_graph()) + data(14, b"") * 500_000)),
    Attack("onnx-ints", "onnx", "an attribute of 4,000,000 numbers",
           file(lambda: onnx_graph(nodes=[onnx_node("Op", (), (),
                                                    data(1, "a") + data(8, b"\1" * 4_000_000))]))),
    Attack("onnx-length-2-63", "onnx", "a graph of 2^63 bytes",
           one_file("m.onnx", lambda: number(1, 8) + varint(7 << 3 | 2) + varint(1 << 63)), REFUSED),
    Attack("onnx-checksums-shared", "onnx", "checksums of 100 external files of 10 MiB that are one member of a zip",
           with_checksums(100)),
    Attack("onnx-hole-tensor", "onnx", "a tensor of 8 GB in a hole",
           holed(onnx_tensor("w", UINT8, (8_000_000_000, )) + b"\x4a", 8_000_000_000), SHOWN,
           cpu=8_000_000_000 * CPU_PER_READ_BYTE_S),
    Attack("onnx-hole-varints", "onnx", "1 GB of varints in a hole",
           holed(onnx_tensor("w", UINT8, (1_000_000_000, )) + b"\x2a", 1_000_000_000)),
    Attack("onnx-hole-dimensions", "onnx", "1 GB of dimensions in a hole",
           holed(onnx_tensor("w", UINT8, ()) + b"\x0a", 1_000_000_000)),
    Attack("onnx-hole-name", "onnx", "a name of 1 GB in a hole", holed(b"\x42", 1_000_000_000)),
    Attack("onnx-hole-after-model", "onnx", "zeros after the model",
           sparse("m.onnx", lambda: onnx_model(onnx_graph()), 1_000_000_000), REFUSED),
    Attack("onnx-external-outside", "onnx", "external data outside of the directory",
           external({"location": "../../../../../../etc/passwd"})),
    Attack("onnx-external-absolute", "onnx", "external data at an absolute path", external({"location": "/etc/passwd"})),
    Attack("onnx-external-link", "onnx", "external data behind a link out of the directory",
           external({"location": "link"}, lambda folder: os.symlink("/etc/passwd", os.path.join(folder, "link")))),
    Attack("onnx-external-fifo", "onnx", "external data in a FIFO",
           external({"location": "fifo"}, lambda folder: os.mkfifo(os.path.join(folder, "fifo"))), {1}, {1}),
    Attack("onnx-external-directory", "onnx", "external data in the directory itself", external({"location": "."})),
    Attack("onnx-external-itself", "onnx", "external data in the model itself",
           external({"location": "m.onnx", "offset": 0, "length": 4})),
    Attack("onnx-external-files", "onnx", "100,000 tensors in a file each, none of which exists", many_files),
]
