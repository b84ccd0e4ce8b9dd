#!/usr/bin/env python3
"""Writes small and huge model containers for tests, benchmarks and the quick start.

  containers.py demo DIR                               a small sample of each format
  containers.py big-names FORMAT COUNT FILE            COUNT tensors of 4 bytes
  containers.py big-tensor FORMAT BYTES FILE [--fill]  one float32 tensor: zeros in a sparse file, or noise

A container is written from tensors (see tensors.py) in the given order: any collection that can be iterated twice, for
the header and for the data, so that a million tensors need not be in memory. The same arguments always give the same
bytes. Nothing is checked: a tensor whose data does not match its shape is written as it is. Standard library only.
"""
import argparse
import json
import math
import os
import struct
from typing import NamedTuple

from flatbuffer import FlatBuffer
from pickles import write_pytorch
from protobuf import write_onnx
from tensors import ManyNames, laid_out, one_tensor, put_data, round_up, text


class RtenType(NamedTuple):
    """The three RTen names of an element type, and the struct code of its inline vectors."""
    constant: int  # enum ConstantDataType
    value: int     # enum DataType
    inline: int    # tag of union ConstantData
    code: str


class DType(NamedTuple):
    """The name of an element type in each format; None if a format has no such type."""
    safetensors: str | None = None
    gguf: int | None = None
    bintensors: int | None = None
    rten: RtenType | None = None


DTYPES = {
    "bool": DType("BOOL", None, 0),
    "uint8": DType("U8", None, 1, RtenType(3, 3, 4, "B")),
    "int8": DType("I8", 24, 2, RtenType(2, 2, 3, "b")),
    "float8_e5m2": DType("F8_E5M2", None, 3),
    "float8_e4m3fn": DType("F8_E4M3", None, 4),
    "int16": DType("I16", 25, 5),
    "uint16": DType("U16", None, 6),
    "float16": DType("F16", 1, 7),
    "bfloat16": DType("BF16", 30, 8),
    "int32": DType("I32", 26, 9, RtenType(0, 0, 2, "i")),
    "uint32": DType("U32", None, 10),
    "float32": DType("F32", 0, 11, RtenType(1, 1, 1, "f")),
    "float64": DType("F64", 28, 12),
    "int64": DType("I64", 27, 13),
    "uint64": DType("U64", None, 14),
    "complex64": DType("C64"),
    "float4_e2m1fn": DType("F4"),
    "float6_e2m3fn": DType("F6_E2M3"),
    "float6_e3m2fn": DType("F6_E3M2"),
    "float8_e4m3fnuz": DType("F8_E4M3FNUZ"),
    "float8_e5m2fnuz": DType("F8_E5M2FNUZ"),
    "float8_e8m0fnu": DType("F8_E8M0"),
    "q4_0": DType(None, 2),
    "q8_0": DType(None, 8),
    "q4_k": DType(None, 12),
    "q6_k": DType(None, 14),
    **{name: DType(None, number) for name, number in {
        "q4_1": 3, "q5_0": 6, "q5_1": 7, "q2_k": 10, "q3_k": 11, "q5_k": 13, "q8_k": 15, "iq2_xxs": 16, "iq2_xs": 17,
        "iq3_xxs": 18, "iq1_s": 19, "iq4_nl": 20, "iq3_s": 21, "iq2_s": 22, "iq4_xs": 23, "iq1_m": 29, "tq1_0": 34, "tq2_0": 35,
        "mxfp4": 39, "nvfp4": 40, "q1_0": 41, "q2_0": 42,
    }.items()},
}


def end_header(file):
    """Pads a safetensors or bintensors header, so that the data starts at a multiple of 8; prepends its length."""
    file.write(b" " * (-file.tell() % 8))
    end = file.tell()
    file.seek(0)
    file.write(struct.pack("<Q", end - 8))
    file.seek(end)


def write_safetensors(path, tensors, metadata=None):
    """`metadata`: text to text, or None for no `__metadata__`."""
    with open(path, "wb") as file:
        file.seek(8)
        file.write(b"{")
        comma = ""
        if metadata is not None:
            file.write(text('"__metadata__":' + json.dumps(metadata, separators=(",", ":"))))
            comma = ","
        for (name, dtype, shape, data), begin in laid_out(tensors):
            file.write(text(f'{comma}{json.dumps(name)}:{{"dtype":"{DTYPES[dtype].safetensors}",'
                            f'"shape":[{",".join(map(str, shape))}],"data_offsets":[{begin},{begin + len(data)}]}}'))
            comma = ","
        file.write(b"}")
        end_header(file)
        put_data(file, tensors)


def write_safetensors_shards(folder, shards, metadata=None):
    """Writes model-0000I-of-0000N.safetensors for each collection of tensors, and their index."""
    weight_map = {}
    for number, tensors in enumerate(shards, 1):
        name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_safetensors(os.path.join(folder, name), tensors, metadata)
        weight_map.update((tensor.name, name) for tensor in tensors)
    total = sum(len(tensor.data) for tensors in shards for tensor in tensors)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=2)
        file.write("\n")


def varint(number):
    """An unsigned integer as bincode writes it."""
    if number <= 250:
        return bytes([number])
    marker, size = (251, 2) if number < 1 << 16 else (252, 4) if number < 1 << 32 else (253, 8)
    return bytes([marker]) + number.to_bytes(size, "little")


def bincode_string(string):
    data = text(string)
    return varint(len(data)) + data


def bincode_metadata(metadata):
    if metadata is None:
        return b"\0"
    pairs = (bincode_string(key) + bincode_string(metadata[key]) for key in sorted(metadata, key=text))
    return b"\1" + varint(len(metadata)) + b"".join(pairs)


def tensor_info(tensor, begin):
    _, dtype, shape, data = tensor
    return b"".join(map(varint, (DTYPES[dtype].bintensors, len(shape), *shape, begin, begin + len(data))))


def write_bintensors(path, tensors, metadata=None):
    """The layout of every published release (0.1.0 and later). `metadata`: text to text, or None."""
    with open(path, "wb") as file:
        file.seek(8)
        file.write(bincode_metadata(metadata) + varint(len(tensors)))
        for tensor, begin in laid_out(tensors):
            file.write(bincode_string(tensor.name) + tensor_info(tensor, begin))
        end_header(file)
        put_data(file, tensors)


def write_bintensors_legacy(path, tensors, metadata=None):
    """The layout of the specification's document (0.0.x): the names are a separate map to the tensors' indexes."""
    with open(path, "wb") as file:
        file.seek(8)
        file.write(bincode_metadata(metadata) + varint(len(tensors)))
        for tensor, begin in laid_out(tensors):
            file.write(tensor_info(tensor, begin))
        file.write(varint(len(tensors)))
        for index, tensor in enumerate(tensors):
            file.write(bincode_string(tensor.name) + varint(index))
        end_header(file)
        put_data(file, tensors)


class Typed(NamedTuple):
    """A GGUF value with an explicit type, instead of the one that gguf_type chooses."""
    type: int
    value: object


GGUF_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
GGUF_U16, GGUF_U32, GGUF_I32, GGUF_FLOAT, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_I64 = 2, 4, 5, 6, 7, 8, 9, 11


def gguf_type(value):
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, int) and not isinstance(value, bool):
        return GGUF_U32 if 0 <= value < 1 << 32 else GGUF_I64
    return {bool: GGUF_BOOL, float: GGUF_FLOAT, str: GGUF_STRING, list: GGUF_ARRAY}[type(value)]


def gguf_string(string):
    data = text(string)
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    kind = gguf_type(value)
    if isinstance(value, Typed):
        value = value.value
    if kind == GGUF_STRING:
        return gguf_string(value)
    if kind == GGUF_ARRAY:  # of its first element's type
        element = gguf_type(value[0]) if value else GGUF_STRING
        return struct.pack("<IQ", element, len(value)) + b"".join(map(gguf_value, value))
    return struct.pack("<" + GGUF_CODES[kind], value)


def write_gguf(path, tensors, metadata=None):
    """Version 3, little-endian. `metadata`: key to bool, int (uint32), float (float32), str, list or Typed."""
    metadata = metadata or {}
    alignment = metadata.get("general.alignment", 32)
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)))
        for key, value in metadata.items():
            file.write(gguf_string(key) + struct.pack("<I", gguf_type(value)) + gguf_value(value))
        for (name, dtype, shape, _), offset in laid_out(tensors, alignment):
            file.write(gguf_string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape)) +
                       struct.pack("<IQ", DTYPES[dtype].gguf, offset))
        file.seek(round_up(file.tell(), alignment))
        put_data(file, tensors, alignment)
        file.truncate(round_up(file.tell(), alignment))


def write_gguf_shards(prefix, shards, metadata=None):
    """Writes PREFIX-0000I-of-0000N.gguf for each collection of tensors; the first has the model's metadata."""
    for number, tensors in enumerate(shards):
        split = {
            "split.no": Typed(GGUF_U16, number),
            "split.count": Typed(GGUF_U16, len(shards)),
            "split.tensors.count": Typed(GGUF_I32, sum(map(len, shards))),
        }
        own = metadata or {} if number == 0 else {}
        write_gguf(f"{prefix}-{number + 1:05d}-of-{len(shards):05d}.gguf", tensors, {**own, **split})


class Value(NamedTuple):
    """A value between RTen operators. A dimension is a number or a name."""
    name: str
    dtype: str
    shape: tuple[int | str, ...]


class Operator(NamedTuple):
    """An RTen operator without attributes; inputs and outputs by name."""
    name: str
    type: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Graph(NamedTuple):
    """The parts of an RTen model other than its constants."""
    values: tuple[Value, ...] = ()
    operators: tuple[Operator, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


RTEN_ADD, RTEN_MATMUL, RTEN_RELU = 0, 30, 39
RTEN_METADATA = (
    "onnx_hash", "description", "license", "commit", "code_repository", "model_repository", "run_id", "run_url")
RTEN_ALIGNMENT = 64


def constant_node(tensor, offset):
    """A node of the graph, slots as in formats/rten/rten.fbs. `offset`: in the tensor data; None for a constant in the model."""
    kind = DTYPES[tensor.dtype].rten
    node = {0: ("I", tensor.shape), 3: ("H", kind.constant)}
    if offset is None:
        node |= {1: ("B", kind.inline), 2: {0: (kind.code, bytes(tensor.data))}}
    else:
        node[4] = ("Q", offset)
    return {0: tensor.name, 1: ("B", 2), 2: node}


def value_node(value):
    dimensions = [{1: size} if isinstance(size, str) else {0: ("I", size)} for size in value.shape]
    return {0: value.name, 1: ("B", 3), 2: {0: dimensions, 1: ("B", DTYPES[value.dtype].rten.value)}}


def rten_model(tensors, offsets, metadata, graph):
    """The model as a FlatBuffer; a node's number is its position among constants, values, operators."""
    number = {node.name: index for index, node in enumerate([*tensors, *graph.values])}
    nodes = list(map(constant_node, tensors, offsets))
    nodes += map(value_node, graph.values)
    for name, kind, inputs, outputs in graph.operators:
        operator = {0: ("B", kind), 3: ("i", tuple(map(number.get, inputs))), 4: ("i", tuple(map(number.get, outputs)))}
        nodes.append({0: name, 1: ("B", 1), 2: operator})
    inputs, outputs = (("I", tuple(map(number.get, names))) for names in (graph.inputs, graph.outputs))
    described = {slot: metadata.get(key) for slot, key in enumerate(RTEN_METADATA)} if metadata is not None else None
    return FlatBuffer({0: ("i", 1), 1: {0: nodes, 1: inputs, 2: outputs}, 2: described}).bytes


def is_inline(tensor):
    """rten-convert keeps constants of at most 16 elements in the model."""
    return math.prod(tensor.shape) <= 16


def write_rten(path, tensors, metadata=None, graph=Graph()):
    """Version 2. `metadata`: keys of RTEN_METADATA to text, or None."""
    external = [tensor for tensor in tensors if not is_inline(tensor)]
    offsets = (offset for _, offset in laid_out(external, RTEN_ALIGNMENT))
    model = rten_model(tensors, [None if is_inline(tensor) else next(offsets) for tensor in tensors], metadata, graph)
    data = round_up(32 + len(model), RTEN_ALIGNMENT)
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQQ", b"RTEN", 2, 32, len(model), data) + model)
        file.seek(data)
        put_data(file, external, RTEN_ALIGNMENT)


def write_rten_v1(path, tensors, metadata=None, graph=Graph()):
    """Version 1: only the model, which contains every constant."""
    with open(path, "wb") as file:
        file.write(rten_model(tensors, [None] * len(tensors), metadata, graph))


WRITERS = {
    "safetensors": write_safetensors,
    "gguf": write_gguf,
    "bintensors": write_bintensors,
    "bintensors-legacy": write_bintensors_legacy,
    "rten": write_rten,
    "rten-v1": write_rten_v1,
    "pytorch": write_pytorch,
    "onnx": write_onnx,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="a small sample of each format")
    demo.add_argument("dir")
    names = commands.add_parser("big-names", help="many tensors of 4 bytes")
    names.add_argument("format", choices=WRITERS)
    names.add_argument("count", type=int)
    names.add_argument("file")
    tensor = commands.add_parser("big-tensor", help="one tensor")
    tensor.add_argument("format", choices=WRITERS)
    tensor.add_argument("bytes", type=int)
    tensor.add_argument("file")
    tensor.add_argument("--fill", action="store_true", help="with noise instead of zeros")
    args = parser.parse_args()
    if args.command == "demo":
        from demo import write_demo
        write_demo(args.dir)
    elif args.command == "big-names":
        WRITERS[args.format](args.file, ManyNames(args.count))
    elif args.bytes % 4:
        parser.error("BYTES must be a multiple of 4: the tensor is float32")
    else:
        WRITERS[args.format](args.file, one_tensor(args.bytes, args.fill))


if __name__ == "__main__":
    main()
