"""Core ML: programs nested deep, many small records, values that share or claim data, weight files outside of the package."""
import json
import os

from attack import EITHER, REFUSED, SHOWN, Attack, one_file, pack, put
from limits import CPU_PER_READ_BYTE_S
from protobuf import data, head, number, varint
from zeros import SEGMENT, zip_of

FLOAT16, FLOAT32, INT32, UINT8 = 10, 11, 23, 31
WEIGHTS = "@model_path/weights/weight.bin"


def tensor_type(kind=UINT8, shape=(4,)):
    sizes = b"".join(data(3, data(1, number(1, size))) for size in shape)
    return data(2, data(1, number(1, kind) + number(2, len(shape)) + sizes))


def stored(offset=64, file=WEIGHTS, **type):
    """A value in a weight file."""
    return tensor_type(**type) + data(5, data(1, file) + number(2, offset))


def immediate(field, values, **type):
    return tensor_type(**type) + data(3, data(1, data(field, data(1, values))))


def operation(kind="const", name="w", *fields):
    return data(3, data(1, kind) + data(3, data(1, name)) + b"".join(fields))


def constant(value, name="w"):
    return operation("const", name, data(5, data(1, "val") + data(2, value)))


def model(code):
    """A model whose main function is a block of these operations."""
    function = data(1, "main") + data(2, data(2, "CoreML7") + data(3, data(1, "CoreML7") + data(2, code)))
    return number(1, 8) + data(502, number(1, 1) + data(2, function))


def file(make):
    return one_file("m.mlmodel", lambda: model(make()))


def nested(depth, name=""):
    """Blocks in operations in blocks."""
    code = constant(immediate(7, b"good"))
    for _ in range(depth):
        code = operation("cond", name, data(4, code))
    return code


def pipelines(depth):
    """Models in pipelines in models."""
    inner = model(constant(immediate(7, b"good")))
    for _ in range(depth):
        inner = number(1, 8) + data(202, data(1, inner))
    return inner


def package(make, weights=lambda: record(4), change=lambda folder: None):
    """A package with one weight file; `change` gets the directory of the model."""
    def build(folder):
        items = {"A": {"path": "com.apple.CoreML/model.mlmodel", "name": "model.mlmodel"}}
        put(folder, "m.mlpackage/Manifest.json", json.dumps({"itemInfoEntries": items, "rootModelIdentifier": "A"}).encode())
        put(folder, "m.mlpackage/Data/com.apple.CoreML/model.mlmodel", model(make()))
        put(folder, "m.mlpackage/Data/com.apple.CoreML/weights/weight.bin", weights())
        change(os.path.join(folder, "m.mlpackage/Data/com.apple.CoreML"))
        return "m.mlpackage"
    return build


def record(size, claimed=None):
    """A weight file with one record of uint8."""
    head = pack("IIQQ", 0xDEADBEEF, 3, size if claimed is None else claimed, 128)
    return pack("II", 1, 2) + bytes(56) + head.ljust(64, b"\0") + bytes(size)


def packed_in(*fields, name="main"):
    """A function with these fields of a block."""
    return data(
        2,
        data(1, name) +
        data(2,
             data(2, "CoreML7") + b"".join(data(3,
                                                data(1, f"opset{i}") + data(2, code)) for i, code in enumerate(fields))))


def program(functions):
    return one_file("m.mlmodel", lambda: number(1, 8) + data(502, number(1, 1) + functions()))


def records_of(count):
    """A weight file of record headers one after the other, each of which claims all that follows it."""
    heads = [pack("IIQQ", 0xDEADBEEF, 3, 64, 64 * (i + 1)).ljust(64, b"\0") for i in range(count)]
    return pack("II", count, 2) + bytes(56) + b"".join(heads) + bytes(128)


def record_at(begin, size=4):
    """A weight file with one record whose bytes are at `begin`."""
    return pack("II", 1, 2) + bytes(56) + pack("IIQQ", 0xDEADBEEF, 3, size, begin).ljust(64, b"\0") + bytes(64)


def zeros_package(count, size):
    """A package in a zip, whose weight file ends with zeros. Its `count` tensors have `size` bytes each."""
    heads = b"".join(pack("IIQQ", 0xDEADBEEF, 3, size, 64 * (count + 1) + i * size).ljust(64, b"\0") for i in range(count))
    items = {"A": {"path": "com.apple.CoreML/model.mlmodel", "name": "model.mlmodel"}}
    code = b"".join(constant(stored(64 * (i + 1), shape=(size,)), f"w{i}") for i in range(count))
    weights = "m.mlpackage/Data/com.apple.CoreML/weights/weight.bin"
    return zip_of({"m.mlpackage/Manifest.json": lambda: json.dumps({"itemInfoEntries": items, "rootModelIdentifier": "A"}).encode(),
                   "m.mlpackage/Data/com.apple.CoreML/model.mlmodel": lambda: model(code),
                   weights: lambda: pack("II", count, 2) + bytes(56) + heads}, {weights: count * size})


def manifest(text):
    """A package with this manifest."""
    def build(folder):
        put(folder, "m.mlpackage/Manifest.json", text)
        put(folder, "m.mlpackage/Data/com.apple.CoreML/model.mlmodel", model(constant(immediate(7, b"good"))))
        return "m.mlpackage"
    return build


def manifest_of(path):
    return manifest(json.dumps({"itemInfoEntries": {"A": {"path": path}}, "rootModelIdentifier": "A"}).encode())


def ends_with_zeros(field, count, kind=UINT8, size=None):
    """A model in a zip whose last tensor has `count` zeros as numbers of this field."""
    def nest(tags, inner):
        for tag in tags:
            inner = head(tag, len(inner) + count) + inner
        return inner

    value = nest((1, field, 1, 3), b"")
    whole = tensor_type(kind, (size or count,)) + value
    entry = data(1, "val") + head(2, len(whole) + count) + whole
    const = data(1, "const") + data(3, data(1, "w")) + head(5, len(entry) + count) + entry
    block = head(3, len(const) + count) + const
    spec = data(1, "CoreML7") + head(2, len(block) + count) + block
    function = data(1, "main") + head(2,
                                      len(data(2, "CoreML7")) + len(head(3,
                                                                         len(spec) + count)) + len(spec) + count) + data(
                                                                             2, "CoreML7") + head(3,
                                                                                                  len(spec) + count) + spec
    mil = number(1, 1) + head(2, len(function) + count) + function
    return zip_of({"m.mlmodel": lambda: number(1, 8) + head(502, len(mil) + count) + mil}, {"m.mlmodel": count})


def hard_links(count):
    def change(folder):
        for i in range(count):
            os.link(os.path.join(folder, "weights/weight.bin"), os.path.join(folder, f"weights/{i}"))
    return change


def link(target):
    return lambda folder: os.symlink(target, os.path.join(folder, "link"))


def network(layers):
    """A model with a neural network of these layers."""
    return number(1, 4) + data(500, layers)


def layer(name, kind, parameters):
    return data(1, data(1, name) + data(kind, parameters))


def bias(name, weights=data(1, bytes(4))):
    return layer(name, 250, number(1, 1) + data(2, weights))


def branches(levels):
    """Branches in branches."""
    code = bias("b")
    for level in range(levels):
        code = layer("n" * 1_000, 605, data(1, code))
    return network(code)


ATTACKS = [
    Attack("coreml-operations-empty", "coreml", "1,000,000 operations of two bytes", file(lambda: data(3, b"") * 1_000_000)),
    Attack("coreml-operations-different", "coreml", "200,000 different operations",
           file(lambda: b"".join(operation(f"op{i}") for i in range(200_000)))),
    Attack("coreml-attributes-empty", "coreml", "an operation with 500,000 attributes of two bytes",
           file(lambda: operation("const", "w",
                                  data(5, b"") * 500_000))),
    Attack("coreml-values-merged", "coreml", "a value in 300,000 parts",
           file(lambda: operation("const", "w", data(5,
                                                     data(1, "val") + data(2, tensor_type()) + data(2, b"") * 300_000)))),
    Attack("coreml-blocks-deep", "coreml", "10,000 blocks in blocks", file(lambda: nested(10_000)), REFUSED),
    Attack("coreml-blocks-20-deep", "coreml", "20 blocks in blocks, with a name of 60 KB in each",
           file(lambda: nested(20, "n" * 60_000))),
    Attack("coreml-pipelines-deep", "coreml", "5,000 models in pipelines", one_file("m.mlmodel", lambda: pipelines(5_000)),
           REFUSED),
    Attack("coreml-functions-empty", "coreml", "500,000 functions of two bytes",
           one_file("m.mlmodel", lambda: number(1, 8) + data(502,
                                                             number(1, 1) + data(2, b"") * 500_000))),
    Attack("coreml-dimensions", "coreml", "500,000 dimensions of 1",
           file(lambda: constant(immediate(7, b"x", shape=(1, ) * 500_000)))),
    Attack("coreml-dimensions-1024", "coreml", "500 tensors of 1,024 dimensions",
           file(lambda: constant(immediate(7, b"x", shape=(1, ) * 1024)) * 500)),
    Attack("coreml-varints", "coreml", "8,000,000 varints, which become 32 MB",
           file(lambda: constant(immediate(2, b"\1" * 8_000_000, kind=INT32, shape=(8_000_000, ))))),
    Attack("coreml-name-above-values", "coreml", "a name of 60 KB above 20,000 values",
           file(lambda: operation("const", "n" * 60_000,
                                  data(5,
                                       data(1, "v") + data(2, immediate(7, b"good"))) * 20_000))),
    Attack("coreml-length-2-63", "coreml", "a program of 2^63 bytes",
           one_file("m.mlmodel", lambda: number(1, 8) + varint(502 << 3 | 2) + varint(1 << 63)), REFUSED),
    Attack("coreml-record-shared", "coreml", "200,000 tensors are one record", package(lambda: constant(stored()) * 200_000)),
    Attack("coreml-record-claimed", "coreml", "a record that claims 2^63 bytes",
           package(lambda: constant(stored(shape=(1 << 62, 2))), lambda: record(4, 1 << 63)), SHOWN),
    Attack("coreml-record-outside", "coreml", "a record at 2^64 - 64", package(lambda: constant(stored((1 << 64) - 64))), SHOWN),
    Attack("coreml-files", "coreml", "50,000 weight files, none of which exists",
           package(lambda: b"".join(constant(stored(file=f"@model_path/weights/{i}")) for i in range(50_000)))),
    Attack("coreml-file-outside", "coreml", "a weight file outside of the package",
           package(lambda: constant(stored(file="@model_path/../../../../../../../../etc/passwd"))), SHOWN),
    Attack("coreml-file-link", "coreml", "a weight file behind a link out of the package",
           package(lambda: constant(stored(file="@model_path/link")), change=link("/etc/passwd")), SHOWN),
    Attack("coreml-file-device", "coreml", "a weight file that is a link to a device",
           package(lambda: constant(stored(file="@model_path/link")), change=link("/dev/zero")), SHOWN),
    Attack(
        "coreml-file-fifo", "coreml", "a weight file that is a FIFO",
        package(lambda: constant(stored(file="@model_path/fifo")), change=lambda folder: os.mkfifo(os.path.join(folder, "fifo"))),
        SHOWN),
    Attack(
        "coreml-scope-long", "coreml", "100,000 tensors in functions whose names differ after 60,000 bytes",
        program(
            lambda: b"".join(packed_in(constant(immediate(7, b"good")) * 5_000, name="n" * 60_000 + str(i)) for i in range(20)))),
    Attack("coreml-opsets", "coreml", "20,000 opsets of one function",
           program(lambda: packed_in(*[constant(immediate(7, b"good"))] * 20_000))),
    Attack("coreml-names-equal", "coreml", "100,000 tensors with one name",
           file(lambda: constant(immediate(7, b"good")) * 100_000)),
    Attack("coreml-tensors-tiny", "coreml", "150,000 tensors of four bytes with names of their own",
           file(lambda: b"".join(constant(immediate(7, b"good"), f"w{i}") for i in range(150_000)))),
    Attack("coreml-shape-2-64", "coreml", "a shape of 2^32 x 2^32",
           file(lambda: constant(immediate(7, b"good", shape=(1 << 32, 1 << 32))))),
    Attack(
        "coreml-shape-empty", "coreml", "shapes of 0 x 2^63 and 2^63 x 0",
        file(lambda: constant(immediate(7, b"", shape=(0, 1 << 63)), "a") + constant(immediate(7, b"", shape=(1 << 63, 0)), "b"))),
    Attack("coreml-numbers-in-parts", "coreml", "a tensor in 1,000,000 packed fields of one number",
           file(lambda: constant(tensor_type(INT32, (1_000_000, )) + data(3, data(1, data(2,
                                                                                          data(1, b"\1") * 1_000_000)))))),
    Attack("coreml-numbers-empty-parts", "coreml", "a tensor of one number behind 2,000,000 empty packed fields",
           file(lambda: constant(tensor_type(INT32, (1, )) + data(3, data(1, data(2,
                                                                                  data(1, b"") * 2_000_000 + data(1, b"\1"))))))),
    Attack("coreml-numbers-merged", "coreml", "a tensor whose message is in 200,000 parts, and 20 such tensors",
           file(lambda: constant(tensor_type(INT32, (10_000, )) + data(3, data(1,
                                                                               data(2, data(1, b"\1")) * 10_000))) * 20)),
    Attack("coreml-varints-long", "coreml", "300,000 varints of 11 bytes",
           file(lambda: constant(immediate(2, b"\x80" * 10 + b"\1", kind=INT32, shape=(1, ))) * 30_000)),
    Attack("coreml-groups-deep", "coreml", "300,000 groups in groups", file(lambda: b"\x0b" * 300_000), REFUSED),
    Attack(
        "coreml-records-overlap", "coreml", "20,000 records that share bytes",
        package(lambda: b"".join(constant(stored(64 * (i + 1), shape=(64, )), f"w{i}") for i in range(20_000)),
                lambda: records_of(20_000))),
    Attack("coreml-record-wraps", "coreml", "a record whose bytes are at 2^64 - 2",
           package(lambda: constant(stored()), lambda: record_at((1 << 64) - 2)), SHOWN),
    Attack("coreml-record-of-its-header", "coreml", "a record whose bytes are its header",
           package(lambda: constant(stored()), lambda: record_at(64))),
    Attack(
        "coreml-files-linked", "coreml", "900 names of one weight file",
        package(lambda: b"".join(constant(stored(file=f"@model_path/weights/{i}"), f"w{i}") for i in range(900)),
                change=hard_links(900))),
    Attack("coreml-file-path-deep", "coreml", "a weight file below 500 directories",
           package(lambda: constant(stored(file="@model_path/" + "a/" * 500 + "w")))),
    Attack("coreml-weights-of-zeros", "coreml", "48 tensors of 16 MiB of zeros each, in a zip of 800 kB",
           zeros_package(48, SEGMENT), cpu=48 * SEGMENT * CPU_PER_READ_BYTE_S),
    Attack("coreml-weights-of-zeros-readers", "coreml", "the same, and six readers", zeros_package(24, SEGMENT), readers=6),
    Attack("coreml-bytes-of-zeros", "coreml", "a tensor of 512 MiB of zeros in a zip", ends_with_zeros(7, 32 * SEGMENT)),
    Attack("coreml-varints-of-zeros", "coreml", "512 Mi varints that are zeros, in a zip", ends_with_zeros(2, 32 * SEGMENT, INT32)),
    Attack("coreml-varints-of-zeros-claimed", "coreml", "256 Mi varints, and the shape claims 128 Mi",
           ends_with_zeros(2, 16 * SEGMENT, INT32, 8 * SEGMENT)),
    Attack("coreml-manifest-deep", "coreml", "a manifest of 400,000 lists in lists", manifest(b"[" * 400_000), EITHER),
    Attack(
        "coreml-manifest-items", "coreml", "a manifest of 40,000 items",
        manifest(
            json.dumps({"itemInfoEntries": {str(i): {"path": "x"} for i in range(40_000)}, "rootModelIdentifier": "7"}).encode()),
        EITHER),
    Attack("coreml-manifest-outside", "coreml", "a manifest that names a model outside of the package",
           manifest_of("../../../../../../../../etc/passwd"), EITHER),
    Attack("coreml-manifest-itself", "coreml", "a manifest that names itself", manifest_of("../Manifest.json"), EITHER),
    Attack(
        "coreml-user-defined", "coreml", "200,000 entries of metadata",
        one_file(
            "m.mlmodel",
            lambda: number(1, 8) + data(2, data(100, b"".join(data(100,
                                                                   data(1, str(i)) + data(2, "v"))
                                                              for i in range(200_000)))) + data(502, number(1, 1)))),
    Attack(
        "coreml-descriptions", "coreml", "20 descriptions with five texts of 60,000 bytes each",
        one_file("m.mlmodel", lambda: number(1, 8) + data(2, data(100,
                                                                  data(1, "t" * 60_000) * 5)) * 20 + data(502, number(1, 1)))),
    Attack("coreml-kinds-unknown", "coreml", "500,000 models of a kind that is not shown",
           one_file("m.mlmodel", lambda: number(1, 8) + data(303, b"") * 500_000)),
    Attack("coreml-pipeline-wide", "coreml", "a pipeline of 20,000 models",
           one_file("m.mlmodel", lambda: number(1, 8) + data(202,
                                                             data(1, model(constant(immediate(7, b"good")))) * 20_000))),
    Attack("coreml-network-layers-empty", "coreml", "1,000,000 empty layers",
           one_file("m.mlmodel", lambda: network(data(1, b"") * 1_000_000))),
    Attack("coreml-network-branches", "coreml", "30 branches in branches with long names",
           one_file("m.mlmodel", lambda: branches(30))),
    Attack("coreml-network-branches-deep", "coreml", "1,000 branches in branches",
           one_file("m.mlmodel", lambda: branches(1_000)), REFUSED),
    Attack("coreml-network-shape", "coreml", "a shape of 10,000,000 dimensions",
           one_file("m.mlmodel", lambda: network(layer("s", 245, data(1, b"\1" * 10_000_000) + data(2, data(1, bytes(4)))))),
           SHOWN),
    Attack("coreml-network-custom", "coreml", "500,000 weights of a custom layer",
           one_file("m.mlmodel", lambda: network(layer("c", 500, data(20, data(1, bytes(4))) * 500_000)))),
    Attack("coreml-network-scales", "coreml", "1,024 tensors with 1,024 scales each",
           one_file("m.mlmodel", lambda: network(b"".join(
               bias(f"b{i}", data(30, b"x") + data(40, number(1, 8) + data(101, data(1, bytes(4096))))) for i in range(1_024))))),
    Attack("coreml-network-labels", "coreml", "2,000,000 labels",
           one_file("m.mlmodel", lambda: number(1, 4) + data(403, bias("b") + data(100, data(1, b"x") * 2_000_000)))),
]
