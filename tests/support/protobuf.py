"""Protocol Buffers messages as bytes, and ONNX models made of them."""
from tensors import Hole


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def data(field, value):
    """A string, bytes, a message, or packed numbers."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def head(field, size):
    """What precedes the bytes of a field with `size` bytes."""
    return varint(field << 3 | 2) + varint(size)


# TensorProto.DataType.
ONNX_FLOAT = 1


def onnx_tensor(name, type, shape, *values):
    """A TensorProto; `values`: further fields."""
    return b"".join(number(1, size) for size in shape) + number(2, type) + data(8, name) + b"".join(values)


def onnx_external(name, type, shape, **entries):
    """A TensorProto whose values are in a file."""
    places = (data(13, data(1, key) + data(2, str(value))) for key, value in entries.items())
    return onnx_tensor(name, type, shape, *places, number(14, 1))


def onnx_node(type, inputs=(), outputs=(), *attributes, name=""):
    return (b"".join(data(1, each) for each in inputs) + b"".join(data(2, each) for each in outputs) + data(3, name) +
            data(4, type) + b"".join(data(5, each) for each in attributes))


def onnx_value(name, type, shape):
    """An input or output; a dimension is a number or a name."""
    dims = b"".join(data(1, number(1, size) if isinstance(size, int) else data(2, size)) for size in shape)
    return data(1, name) + data(2, data(1, number(1, type) + data(2, dims)))


def onnx_graph(initializers=(), nodes=(), inputs=(), outputs=()):
    return (b"".join(data(1, each) for each in nodes) + data(2, "g") + b"".join(data(5, each) for each in initializers) +
            b"".join(data(11, each) for each in inputs) + b"".join(data(12, each) for each in outputs))


def onnx_model(graph, *fields):
    return number(1, 8) + data(7, graph) + data(8, data(1, "") + number(2, 17)) + b"".join(fields)


def onnx_property(key, value):
    """An entry of metadata_props, as a field of a model."""
    return data(14, data(1, key) + data(2, value))


def write_onnx(path, tensors, metadata=None):
    """A model with float32 initializers; their bytes may be a Hole. `metadata`: its metadata_props."""
    initializers = []
    for name, _, shape, values in tensors:
        described = onnx_tensor(name, ONNX_FLOAT, shape) + head(9, len(values))
        initializers.append((head(5, len(described) + len(values)) + described, values))
    with open(path, "wb") as file:
        file.write(number(1, 8) + head(7, sum(len(described) + len(values) for described, values in initializers)))
        for described, values in initializers:
            file.write(described)
            values.write_to(file) if isinstance(values, Hole) else file.write(values)
        file.write(b"".join(onnx_property(key, value) for key, value in (metadata or {}).items()))
        file.truncate()
