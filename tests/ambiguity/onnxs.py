"""ONNX models whose fields come twice or in odd ways, and a reader by the rules of Protocol Buffers."""
import itertools

from arrays import COUNT, numbers
import protobuf
from rows import Row, honest

# Fields: TensorProto.
DIMS, TYPE, FLOATS, NAME, RAW = 1, 2, 4, 8, 9
FLOAT = 1
GRAPH, INITIALIZER = 7, 5


def dims(*sizes):
    return b"".join(protobuf.number(DIMS, size) for size in sizes)


def packed_dims(*sizes):
    return protobuf.data(DIMS, b"".join(map(protobuf.varint, sizes)))


def tensor(name, seed, shape=dims(COUNT), more=b"", kind=FLOAT):
    return shape + protobuf.number(TYPE, kind) + protobuf.data(NAME, name.encode()) + protobuf.data(RAW, numbers(seed)) + more


def graph(*tensors, more=b""):
    return protobuf.data(2, b"main") + b"".join(protobuf.data(INITIALIZER, each) for each in tensors) + more


def model(*graphs, before=b"", after=b""):
    head = before + protobuf.number(1, 8) + protobuf.data(8, protobuf.number(2, 17))
    return head + b"".join(protobuf.data(GRAPH, each) for each in graphs) + after


SINGLY = b"".join(b"\x25" + numbers(97)[i:i + 4] for i in range(0, 4 * COUNT, 4))  # floats that are not packed
MORE = (protobuf.data(NAME, b"c"), protobuf.number(TYPE, 6), protobuf.number(TYPE, 1), dims(2), dims(1), packed_dims(1),
        packed_dims(), protobuf.data(RAW, numbers(99)), protobuf.data(RAW, numbers(99)[:8]), protobuf.data(RAW, b""),
        protobuf.data(FLOATS, numbers(98)), SINGLY, protobuf.number(99, 1), protobuf.number(14, 0), protobuf.number(14, 1),
        protobuf.data(12, b"text"), b"\x0d\4\0\0\0", protobuf.data(TYPE, b"\1"), protobuf.number(NAME, 3), b"\x7b\x7c", b"\7",
        b"\0\0", protobuf.number(1 << 20, 1))


def rows():
    for seed in range(6):
        a, b = tensor("a", seed), tensor("b", seed + 1)
        yield honest("onnx", model(graph(a, b)))
        for one, two in (("a", "a"), ("a", "A"), ("é", "e\u0301"), ("", ""), ("a", "a\0"), ("a", "./a")):
            yield Row("onnx", f"tensors {one} {two}", model(graph(tensor(one, seed), tensor(two, seed + 1))))
            yield Row("onnx", f"tensors {one} {two} of two graphs", model(graph(tensor(one, seed)), graph(tensor(two, seed + 1))))
            yield Row("onnx", f"tensors {one} {two} of another shape", model(graph(tensor(one, seed),
                                                                                   tensor(two, seed + 1, dims(2, 2)))))
        for more in MORE:
            yield Row("onnx", "a field behind", model(graph(tensor("a", seed, more=more), b)))
            yield Row("onnx", "a field in front", model(graph(more + tensor("a", seed), b)))
        for shape in (dims(2, 2), packed_dims(2, 2), dims(2) + packed_dims(2), packed_dims(2) + dims(2), packed_dims(4),
                      b"\x08\x84\x00", b"\x08\x84\x80\x80\x80\x80\x80\x80\x80\x80\x00",
                      b"\x0a\2\x84\0", b"\x88\x00\x04", dims(4, 1), b"", packed_dims(),
                      b"\x08\x84\x80\x80\x80\x80\x80\x80\x80\x80\x02"):
            yield Row("onnx", "a spelling of dims", model(graph(tensor("a", seed, shape), b)))
        for before, after in itertools.product((b"", protobuf.data(GRAPH, graph(b)), protobuf.data(GRAPH, b""),
                                                protobuf.data(GRAPH, protobuf.data(2, b"other")), protobuf.number(GRAPH, 3)),
                                               repeat=2):
            yield Row("onnx", "a graph twice", model(graph(a), before=before, after=after))
        for after in (b"\0", b"x", b"\x3a", b"\x3a\x7f", b"\x0b\x0c", b"\x0c", b"\x0f", b"\x08", protobuf.number(1, 3),
                      protobuf.data(8, protobuf.number(2, 9))):
            yield Row("onnx", "bytes behind the model", model(graph(a), after=after))


class Refused(Exception):
    """Protocol Buffers refuse the bytes."""


def varint(data, at):
    value = 0
    for i in range(10):
        if at >= len(data):
            raise Refused("cut")
        value |= (data[at] & 0x7f) << 7 * i
        at += 1
        if data[at - 1] < 0x80:
            return value & (1 << 64) - 1, at
    raise Refused("a varint of more than ten bytes")


def fields(data):
    """(field, wire type, value) of a message."""
    at, groups = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        if tag >> 32 or not tag >> 3:
            raise Refused("a field 0")
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        elif wire == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        elif wire == 3:
            groups.append(field)
            continue
        elif wire == 4 and groups and groups[-1] == field:
            groups.pop()
            continue
        else:
            raise Refused("a wire type")
        if at > len(data):
            raise Refused("cut")
        if not groups:
            yield field, wire, value
    if groups:
        raise Refused("a group without end")


def read_tensor(data):
    shape, found = [], {}
    floats = b""
    for field, wire, value in fields(data):
        if field == DIMS and wire == 0:
            shape.append(value)
        elif field == DIMS and wire == 2:
            at = 0
            while at < len(value):
                size, at = varint(value, at)
                shape.append(size)
        elif field == FLOATS and wire in (2, 5):
            floats += value
        elif (field, wire) in ((TYPE, 0), (NAME, 2), (RAW, 2), (14, 0)):
            found[field] = value
    raw = found.get(RAW) if RAW in found else floats
    count = 1
    for size in shape:
        count *= size
    if found.get(TYPE) not in (1, 6) or found.get(14, 0) or len(raw) != 4 * count:
        raise Refused("a tensor that onnx does not convert")
    return found.get(NAME, b"").decode(), tuple(shape), raw


def read(data):
    """The initializers as onnx.load gives them: (name, shape, bytes)."""
    out = []
    for field, wire, value in fields(data):
        if (field, wire) == (GRAPH, 2):
            out += [read_tensor(inner) for tag, kind, inner in fields(value) if (tag, kind) == (INITIALIZER, 2)]
    return out
