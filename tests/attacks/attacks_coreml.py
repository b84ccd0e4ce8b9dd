"""Core ML: programs nested deep, many small records, values that share or claim data, weight files outside of the package."""
import json
import os

from attack import REFUSED, SHOWN, Attack, one_file, pack, put
from protobuf import data, number, varint

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


def link(target):
    return lambda folder: os.symlink(target, os.path.join(folder, "link"))


ATTACKS = [
    Attack("coreml-operations-empty", "coreml", "1,000,000 operations of two bytes", file(lambda: data(3, b"") * 1_000_000)),
    Attack("coreml-operations-different", "coreml", "200,000 different operations",
           file(lambda: b"".join(operation(f"op{i}") for i in range(200_000)))),
    Attack("coreml-attributes-empty", "coreml", "an operation with 500,000 attributes of two bytes",
           file(lambda: operation("const", "w", data(5, b"") * 500_000))),
    Attack("coreml-values-merged", "coreml", "a value in 300,000 parts",
           file(lambda: operation("const", "w", data(5, data(1, "val") + data(2, tensor_type()) + data(2, b"") * 300_000)))),
    Attack("coreml-blocks-deep", "coreml", "10,000 blocks in blocks", file(lambda: nested(10_000)), REFUSED),
    Attack("coreml-blocks-20-deep", "coreml", "20 blocks in blocks, with a name of 60 KB in each", file(lambda: nested(20, "n" * 60_000))),
    Attack("coreml-pipelines-deep", "coreml", "5,000 models in pipelines", one_file("m.mlmodel", lambda: pipelines(5_000)), REFUSED),
    Attack("coreml-functions-empty", "coreml", "500,000 functions of two bytes",
           one_file("m.mlmodel", lambda: number(1, 8) + data(502, number(1, 1) + data(2, b"") * 500_000))),
    Attack("coreml-dimensions", "coreml", "500,000 dimensions of 1", file(lambda: constant(immediate(7, b"x", shape=(1,) * 500_000)))),
    Attack("coreml-dimensions-1024", "coreml", "500 tensors of 1,024 dimensions",
           file(lambda: constant(immediate(7, b"x", shape=(1,) * 1024)) * 500)),
    Attack("coreml-varints", "coreml", "8,000,000 varints, which become 32 MB",
           file(lambda: constant(immediate(2, b"\1" * 8_000_000, kind=INT32, shape=(8_000_000,))))),
    Attack("coreml-name-above-values", "coreml", "a name of 60 KB above 20,000 values",
           file(lambda: operation("const", "n" * 60_000, data(5, data(1, "v") + data(2, immediate(7, b"good"))) * 20_000))),
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
    Attack("coreml-file-fifo", "coreml", "a weight file that is a FIFO",
           package(lambda: constant(stored(file="@model_path/fifo")), change=lambda folder: os.mkfifo(os.path.join(folder, "fifo"))), SHOWN),
]
