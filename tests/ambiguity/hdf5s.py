"""HDF5 files with names, messages and superblocks twice, and links of all kinds."""
import functools
import itertools
import struct

from arrays import COUNT, numbers
from rows import Row, honest

NONE = b"\xff" * 8
F32 = b"\x11\x20\x1f\0" + struct.pack("<IHHBBBBI", 4, 0, 32, 23, 8, 0, 23, 127)
I32 = b"\x10\x08\0\0" + struct.pack("<IHH", 4, 0, 32)


@functools.lru_cache(maxsize=None)
def lookup3(data):
    """Bob Jenkins' hash, as H5_checksum_lookup3() computes it."""
    def rotated(value, bits):
        return (value << bits | value >> 32 - bits) & 0xFFFFFFFF

    a = b = c = 0xDEADBEEF + len(data) & 0xFFFFFFFF
    at, left = 0, len(data)
    while left > 12:
        words = struct.unpack_from("<3I", data, at)
        a, b, c = (x + y & 0xFFFFFFFF for x, y in zip((a, b, c), words))
        for bits in (4, 6, 8, 16, 19, 4):
            a = (a - c & 0xFFFFFFFF) ^ rotated(c, bits)
            c = c + b & 0xFFFFFFFF
            a, b, c = b, c, a
        at, left = at + 12, left - 12
    if left == 0:
        return c
    words = struct.unpack("<3I", data[at:].ljust(12, b"\0"))
    a, b, c = (x + y & 0xFFFFFFFF for x, y in zip((a, b, c), words))
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - rotated(b, bits) & 0xFFFFFFFF
        a, b, c = b, c, a
    return b


def summed(block):
    return block + struct.pack("<I", lookup3(block))


def dataspace(*shape):
    return 1, struct.pack("<BBB5x", 1, len(shape), 0) + struct.pack(f"<{len(shape)}Q", *shape)


def layout(address, size):
    return 8, b"\3\1" + struct.pack("<QQ", address, size)


def compact(data):
    return 8, b"\3\0" + struct.pack("<H", len(data)) + data


def datatype(kind):
    return 3, kind


def hard(name, address):
    return 6, b"\1\0" + bytes([len(name)]) + name + struct.pack("<Q", address)


def soft(name, target):
    return 6, b"\1\x08\1" + bytes([len(name)]) + name + struct.pack("<H", len(target)) + target


def external(name, file, path):
    target = b"\0" + file + b"\0" + path + b"\0"
    return 6, b"\1\x08\x40" + bytes([len(name)]) + name + struct.pack("<H", len(target)) + target


class File:
    """A file in the making. `is_new`: with superblock 2 and the newer headers."""

    def __init__(self, is_new, base=0):
        self.is_new, self.base = is_new, base
        self.image = bytes(48 if is_new else 96)

    def put(self, block):
        self.image += bytes(-len(self.image) % 8)
        self.image += block
        return len(self.image) - len(block)

    def object(self, messages):
        if self.is_new:
            data = b"".join(struct.pack("<BHB", kind, len(body), 0) + body for kind, body in messages)
            return self.put(summed(b"OHDR\2\2" + struct.pack("<I", len(data)) + data))
        data = b""
        for kind, body in messages:
            body += bytes(-len(body) % 8)
            data += struct.pack("<HHB3x", kind, len(body), 0) + body
        return self.put(struct.pack("<BBHII4x", 1, 0, len(messages), 1, len(data)) + data)

    def dataset(self, seed, *more, shape=(COUNT,), kind=F32, front=()):
        """`more`: messages behind those of the dataset, or in front."""
        return self.object([*front, dataspace(*shape), datatype(kind), layout(self.put(numbers(seed)), 4 * COUNT), *more])

    def place(self, seed):
        return self.put(numbers(seed))

    def group(self, *links):
        """`links`: messages for a new file, (name, address) or (name, target of a soft link) for an old one."""
        if self.is_new:
            return self.object([(10, bytes(2)), (2, b"\0\0" + NONE * 2), *links])
        names, node, last = bytes(8), b"SNOD" + struct.pack("<BBH", 1, 0, len(links)), 0
        for name, target in links:
            last = len(names)
            if isinstance(target, bytes):
                text = len(names) + (len(name) // 8 + 1) * 8
                node += struct.pack("<QQIII12x", last, 0xFFFFFFFFFFFFFFFF, 2, 0, text)
            else:
                node += struct.pack("<QQ24x", last, target)
            names += name + bytes(8 - len(name) % 8)
            if isinstance(target, bytes):
                names += target + bytes(8 - len(target) % 8)
        heap = self.put(b"HEAP" + struct.pack("<IQQQ", 0, len(names), 1, self.put(names)))
        tree = self.put(b"TREE\0\0" + struct.pack("<H", 1) + NONE * 2 + struct.pack("<QQQ", 0, self.put(node.ljust(328, b"\0")),
                                                                                    last) + bytes(496))
        return self.object([(17, struct.pack("<QQ", tree, heap))])

    def link(self, name, address):
        return hard(name, address) if self.is_new else (name, address)

    def symbolic(self, name, target):
        return soft(name, target) if self.is_new else (name, target)

    def build(self, root, end=None, base=None):
        image = self.image + bytes(-len(self.image) % 8)
        size = self.base + len(image) if end is None else end
        base = self.base if base is None else base
        if self.is_new:
            head = summed(b"\x89HDF\r\n\x1a\n\2\x08\x08\0" + struct.pack("<Q", base) + NONE + struct.pack("<QQ", size, root))
        else:
            signature = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\4\0\x10\0\0\0\0\0"
            head = signature + struct.pack("<Q", base) + NONE + struct.pack("<Q", size) + NONE + struct.pack("<QQ24x", 0, root)
        return head + image[len(head):]


def rows():
    for is_new, seed in ((False, 0), (True, 1)):
        yield from links(is_new, seed)
        yield from messages(is_new, seed)
        yield from superblocks(is_new, seed)


def links(is_new, seed):
    """Names twice, and links."""
    file = File(is_new)
    yield honest("h5", file.build(file.group(file.link(b"a", file.dataset(seed)), file.link(b"b", file.dataset(seed + 1)))))
    for one, two in itertools.product((b"a", b"A", b"b", b"", b".", b"a/b", b"..", "é".encode(), "e\u0301".encode(), b"a\0b"),
                                      repeat=2):
        file = File(is_new)
        first, second = file.dataset(seed), file.dataset(seed + 1)
        yield Row("h5", f"names {one} {two}", file.build(file.group(file.link(one, first), file.link(two, second))))
        yield Row("h5", f"names {one} {two} of three",
                  file.build(file.group(file.link(one, first), file.link(b"a1", file.dataset(seed + 2)), file.link(two, second))))
    for target in (b"a", b"/a", b"./a", b"g/a", b"/g/a", b"g/../a", b"s", b"missing", b"/", b"g", b".", b"", b"a/", b"//a", b"g/t"):
        file = File(is_new)
        data = file.dataset(seed)
        inner = file.group(file.link(b"a", file.dataset(seed + 1)), file.symbolic(b"t", target))
        pairs = [file.link(b"a", data), file.link(b"g", inner), file.symbolic(b"s", target)]
        yield Row("h5", f"a soft link to {target}", file.build(file.group(*pairs)))
        yield Row("h5", f"a soft link to {target} with the name of a dataset",
                  file.build(file.group(pairs[0], file.symbolic(b"a", target), pairs[1])))
        yield Row("h5", f"a soft link to {target}, before a dataset of its name",
                  file.build(file.group(file.symbolic(b"a", target), pairs[0], pairs[1])))
    if is_new:
        for name, path in itertools.product((b"other.h5", b"", b"00000.h5", b"../../etc/passwd"), (b"/a", b"a", b"")):
            file = File(True)
            data = file.dataset(seed)
            yield Row("h5", "an external link", file.build(file.group(hard(b"a", data), external(b"x", name, path))))
            yield Row("h5", "an external link with the name of a dataset",
                      file.build(file.group(external(b"a", name, path), hard(b"a", data))))
    file = File(is_new)
    data = file.dataset(seed)
    yield Row("h5", "a dataset with two names", file.build(file.group(file.link(b"a", data), file.link(b"b", data))))
    inner = file.group(file.link(b"a", data))
    yield Row("h5", "a group with two names", file.build(file.group(file.link(b"g", inner), file.link(b"h", inner))))


def messages(is_new, seed):
    """Messages of a dataset twice."""
    others = (dataspace(2), dataspace(2, 2), dataspace(4), dataspace(1, 4), datatype(I32), datatype(F32),
              compact(numbers(seed + 9)), compact(numbers(seed + 9)[:8]), (0, bytes(8)), (99, bytes(8)),
              (5, b"\2\2\0\1" + struct.pack("<I", 4) + b"abcd"), (5, b"\2\2\2\0"), (12, b"broken"))
    for other in others:
        for where in ("behind", "in front"):
            file = File(is_new)
            more = dict(front=[other]) if where == "in front" else {}
            data = file.dataset(seed, *([other] if where == "behind" else []), **more)
            yield Row("h5", f"a message {other[0]} {where}", file.build(file.group(file.link(b"a", data))))
            file = File(is_new)
            second = layout(file.place(seed + 7), 4 * COUNT)
            data = file.dataset(seed, *([other, second] if where == "behind" else []),
                                **(dict(front=[second, other]) if more else {}))
            yield Row("h5", f"a message {other[0]} and a layout {where}", file.build(file.group(file.link(b"a", data))))
    for size in (0, 8, 15, 17, 32):
        file = File(is_new)
        data = file.object([dataspace(COUNT), datatype(F32), layout(file.put(numbers(seed) * 2), size)])
        yield Row("h5", "a size of the layout", file.build(file.group(file.link(b"a", data))))


def superblocks(is_new, seed):
    """Superblocks at several places, ends and bases that are not those of the file."""
    def whole(number, base=0, **fields):
        file = File(is_new, base)
        return file.build(file.group(file.link(b"a", file.dataset(number))), **fields)
    size = len(whole(seed))
    for at in (512, 1024, 2048, 4096, 513, 256):
        for front in (b"", b"x" * 64, b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n\2\x08\x08\0", b"\x89HDF\r\n\x1a\n\x09", b"PK\3\4"):
            yield Row("h5", f"a block of the user, {at}", front.ljust(at, b"\0") + whole(seed, at))
            yield Row("h5", f"a block of the user without a base, {at}", front.ljust(at, b"\0") + whole(seed))
        yield Row("h5", f"two superblocks, {at}", whole(seed).ljust(max(at, 512), b"\0")[:at] + whole(seed + 1, at))
        yield Row("h5", f"two files, {at}", whole(seed).ljust(2048, b"\0") + whole(seed + 1, 2048))
    for end in (0, size - 8, size - 1, size + 1, size + 8, size + 4096, 96):
        yield Row("h5", "an end", whole(seed, end=end))
        yield Row("h5", "an end, and bytes behind", whole(seed, end=end) + whole(seed + 1))
    for base in (8, 512, 1 << 40):
        yield Row("h5", "a base", whole(seed, base=base))
    for tail in (b"x", bytes(512), whole(seed + 1)):
        yield Row("h5", "bytes behind the end", whole(seed) + tail)
