"""GGUF files that llama.cpp refuses, or that readers may take in two ways."""
import struct

from arrays import COUNT, numbers
from rows import Row, honest

U8, U32, TEXT, ARRAY, U64 = 0, 4, 8, 9, 10


def text(string):
    raw = string if isinstance(string, bytes) else string.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind=TEXT, value=None):
    body = text("llama") if value is None else value
    return text(name) + struct.pack("<I", kind) + body


def tensor(name, offset, shape=(COUNT,), kind=0):
    return text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)


def gguf(keys, tensors, data, alignment=32, counts=None, tail=b""):
    counted = counts or (len(tensors), len(keys))
    out = b"GGUF" + struct.pack("<IQQ", 3, *counted) + b"".join(keys) + b"".join(tensors)
    return out + bytes(-len(out) % alignment) + data + tail


def padded(*seeds, to=32):
    return b"".join(numbers(seed) + bytes(to - 4 * COUNT) for seed in seeds)


ARCHITECTURE = key("general.architecture")


def alignment(value, kind=U32, form="<I"):
    return key("general.alignment", kind, struct.pack(form, value))


def rows():
    for seed in range(8):
        data = padded(seed, seed + 1, seed + 2)
        yield honest("gguf", gguf([ARCHITECTURE], [tensor("a", 0), tensor("b", 32)], data[:64]))
        for one, two in (("a", "a"), ("a", "A"), ("é", "e\u0301"), ("a", "a\0"), ("a", "./a"), ("a", "a/"), ("", ""),
                         (b"\xff", b"\xfe")):
            yield Row("gguf", f"tensors {one} {two}", gguf([ARCHITECTURE], [tensor(one, 0), tensor(two, 32)], data[:64]))
            yield Row("gguf", f"tensors {one} {two} of three", gguf([ARCHITECTURE],
                                                                    [tensor(one, 0), tensor("c", 32), tensor(two, 64)], data))
            yield Row("gguf", f"tensors {one} {two} of another shape", gguf([ARCHITECTURE],
                                                                            [tensor(one, 0), tensor(two, 32, (2, 2))], data[:64]))
            yield Row("gguf", f"tensors {one} {two}, one place", gguf([ARCHITECTURE], [tensor(one, 0), tensor(two, 0)], data[:64]))
            yield Row("gguf", f"keys {one} {two}", gguf([ARCHITECTURE, key(one), key(two, TEXT, text("other"))], [tensor("a", 0)],
                                                        data[:32]))
        for values in ((32, 64), (64, 32), (64, 64), (16, 32), (8, 128)):
            both = [ARCHITECTURE, *map(alignment, values)]
            for at in values:
                yield Row("gguf", f"an alignment twice {values}", gguf(both, [tensor("a", 0)],
                                                                       numbers(seed) + bytes(128) + padded(seed + 1, to=128), at))
        for one in (alignment(64, U64, "<Q"), alignment(64, U8, "<B"), alignment(0), alignment(3), alignment(48),
                    key("general.alignment", TEXT, text("64")), alignment(1), alignment(1 << 20)):
            yield Row("gguf", "an odd alignment", gguf([ARCHITECTURE, one], [tensor("a", 0)], numbers(seed) + bytes(240), 32))
            yield Row("gguf", "an odd alignment, kept", gguf([ARCHITECTURE, one], [tensor("a", 0)], numbers(seed) + bytes(240), 64))
        for offsets in ((32, 0), (0, 0), (0, 64), (0, 16), (0, 33), (8, 40), (0, 1 << 63), (32, 64)):
            yield Row("gguf", f"offsets {offsets}", gguf([ARCHITECTURE], [tensor("a", offsets[0]), tensor("b", offsets[1])], data))
        for tail in (b"x", bytes(32), numbers(9), gguf([ARCHITECTURE], [tensor("z", 0)], padded(9))):
            yield Row("gguf", "bytes behind the data", gguf([ARCHITECTURE], [tensor("a", 0)], data[:32], tail=tail))
        for counts in ((0, 1), (1, 1), (2, 0), (2, 2), (3, 1)):
            yield Row("gguf", f"counts {counts}", gguf([ARCHITECTURE], [tensor("a", 0), tensor("b", 32)], data[:64], counts=counts))
        for shape in ((2, 2), (4, 1), (4, 1, 1, 1), (4, 1, 1, 1, 1), (), (0,), (1 << 62,)):
            yield Row("gguf", f"a shape {shape}", gguf([ARCHITECTURE], [tensor("a", 0, shape)], data[:32]))


class Refused(Exception):
    """llama.cpp refuses the file."""


class Reader:
    """gguf.cpp of ggml: gguf_init_from_file_impl()."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if size > len(self.data) - self.at:
            raise Refused("cut")
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def keys(self, count):
        found = {}
        for _ in range(count):
            name, kind = self.text(), self.number("I")
            if not name or name in found:
                raise Refused("a key that is empty or twice")
            if kind not in (U8, U32, TEXT, U64):
                raise Refused("a type that the rows have not")
            found[name] = (kind, self.text() if kind == TEXT else self.number({U8: "B", U32: "I", U64: "Q"}[kind]))
        return found

    def tensors(self, count):
        found = {}
        for _ in range(count):
            name = self.text()
            if name in found or len(name) >= 64:
                raise Refused("a tensor twice")
            dimensions = self.number("I")
            if dimensions > 4:
                raise Refused("dimensions")
            shape = [self.number("Q") for _ in range(dimensions)]
            kind, offset = self.number("I"), self.number("Q")
            if kind != 0 or any(size > 1 << 40 for size in shape):
                raise Refused("type or shape")
            found[name] = (tuple(shape), offset)
        return found


def read(data):
    """The tensors as llama.cpp reads them: (name, shape, bytes)."""
    reader = Reader(data)
    if reader.take(4) != b"GGUF" or reader.number("I") != 3:
        raise Refused("magic")
    tensors, keys = reader.number("Q"), reader.number("Q")
    found = reader.keys(keys)
    kind, at = found.get(b"general.alignment", (U32, 32))
    if kind != U32 or at == 0 or at & at - 1:
        raise Refused("alignment")
    infos = reader.tensors(tensors)
    begin = -(-reader.at // at) * at
    out, expected = [], 0
    for name, (shape, offset) in infos.items():
        size = 4
        for count in shape:
            size *= count
        if offset != expected:
            raise Refused("offset")
        expected += -(-size // at) * at
        raw = data[begin + offset:begin + offset + size]
        if len(raw) != size:
            raise Refused("cut")
        out.append((name.decode(errors="replace"), tuple(reversed(shape)), raw))
    return out
