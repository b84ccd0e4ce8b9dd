"""HDF5: structures that are shared, lead back to themselves, or claim sizes, and chunks that decode to much."""
import struct
import zlib

from attack import REFUSED, Attack, one_file

NOWHERE = (1 << 64) - 1
FLOAT = struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, 0x1F, 0, 4, 0, 32, 23, 8, 0, 23, 127)


def padded(data):
    return data + bytes(-len(data) % 8)


class Hdf5:
    """A file of superblock 0, block by block."""

    def __init__(self):
        self.image = bytearray(96)

    def put(self, block):
        self.image += bytes(-len(self.image) % 8)
        at = len(self.image)
        self.image += block
        return at

    def object(self, *messages):
        data = b"".join(struct.pack("<HHB3x", kind, len(padded(body)), 0) + padded(body) for kind, body in messages)
        return self.put(struct.pack("<BxHIII", 1, len(messages), 1, len(data), 0) + data)

    def dataset(self, dims, layout, *more, kind=FLOAT):
        space = struct.pack("<BBB5x", 1, len(dims), 0) + struct.pack(f"<{len(dims)}Q", *dims)
        return self.object((1, space), (3, kind), (8, layout), *more)

    def symbols(self, links):
        """The message of an old group with these (name, address)."""
        names, nodes = bytearray(8), []
        for at in range(0, max(len(links), 1), 8):
            entries = b""
            for name, address in links[at:at + 8]:
                entries += struct.pack("<QQ24x", len(names), address)
                names += padded(name + b"\0")
            nodes.append(self.put(struct.pack("<4sBxH", b"SNOD", 1, len(entries) // 40) + entries))
        texts = self.put(bytes(names))
        heap = self.put(struct.pack("<4s4xQQQ", b"HEAP", len(names), NOWHERE, texts))
        level = 0
        while len(nodes) > 1 or level == 0:
            nodes = [self.put(group_node(nodes[at:at + 32], level)) for at in range(0, len(nodes), 32)]
            level += 1
        return 17, struct.pack("<QQ", nodes[0], heap)

    def group(self, links, *more):
        return self.object(self.symbols(links), *more)

    def build(self, root):
        head = b"\x89HDF\r\n\x1a\n" + struct.pack("<5x3B HHI QQQQ QQ24x", 8, 8, 0, 4, 16, 0, 0, NOWHERE, len(self.image), NOWHERE,
                                                  0, root)
        self.image[:len(head)] = head
        return bytes(self.image)


def group_node(children, level):
    return struct.pack("<4sBBHQQQ", b"TREE", 0, level, len(children), NOWHERE, NOWHERE, 0) + b"".join(
        struct.pack("<QQ", child, 0) for child in children)


def contiguous(address, size):
    return struct.pack("<BBQQ", 3, 1, address, size)


def chunked(tree, dims, element=4):
    return struct.pack("<BBBQ", 3, 2, len(dims) + 1, tree) + struct.pack(f"<{len(dims) + 1}I", *dims, element)


def deflate():
    return 11, struct.pack("<BB6xHHHHII", 1, 1, 1, 0, 0, 1, 6, 0)


def chunk_tree(file, chunks, rank):
    body = b"".join(
        struct.pack("<II", size, 0) + struct.pack(f"<{rank + 2}Q", *place, 0, address) for address, size, place in chunks)
    return file.put(struct.pack("<4sBBHQQ", b"TREE", 1, 0, len(chunks), NOWHERE, NOWHERE) + body + bytes(16 + 8 * rank))


def attribute(name, text):
    kind, space = struct.pack("<BBBBI", 0x13, 0, 0, 0, len(text)), struct.pack("<BBB5x", 1, 0, 0)
    return 12, struct.pack("<BxHHH", 1,
                           len(name) + 1, len(kind), len(space)) + padded(name + b"\0") + padded(kind) + padded(space) + text


def one_dataset(make):
    def build():
        file = Hdf5()
        return file.build(file.group([(b"w", make(file))]))
    return one_file("m.h5", build)


def names_shared():
    """Many symbols of one long name and one dataset."""
    file = Hdf5()
    w = file.dataset((2,), contiguous(96, 8))
    name = file.put(b"n" * 60_000 + b"\0")
    heap = file.put(struct.pack("<4s4xQQQ", b"HEAP", 60_001, NOWHERE, name))
    node = struct.pack("<4sBxH", b"SNOD", 1, 8) + struct.pack("<QQ24x", 0, w) * 8
    nodes = [file.put(node) for _ in range(4_000)]
    level = 0
    while len(nodes) > 1:
        nodes = [file.put(group_node(nodes[at:at + 32], level)) for at in range(0, len(nodes), 32)]
        level += 1
    return file.build(file.object((17, struct.pack("<QQ", nodes[0], heap))))


def many(count):
    file = Hdf5()
    links = [(b"%d" % i, file.dataset((2,), contiguous(96, 8))) for i in range(count)]
    return file.build(file.group(links))


def groups_multiply():
    file = Hdf5()
    group = file.group([])
    for _ in range(60):
        group = file.group([(b"a", group), (b"b", group)])
    return file.build(group)


def nodes_shared():
    """4,000 groups of one B-tree with 1,000 datasets."""
    file = Hdf5()
    w = file.dataset((2,), contiguous(96, 8))
    table = file.symbols([(b"%d" % i, w) for i in range(1_000)])
    groups = [(b"g%d" % i, file.object(table)) for i in range(4_000)]
    return file.build(file.group(groups))


def continuations():
    """A header whose continuation blocks overlap."""
    file = Hdf5()
    block = struct.pack("<HHB3x", 0, 0, 0) * 20_000
    at = file.put(block)
    more = [(16, struct.pack("<QQ", at + 8 * i, len(block) - 8 * i)) for i in range(2_000)]
    return file.build(file.object(file.symbols([]), *more))


def continuation_loop():
    file = Hdf5()
    at = len(file.image)
    return file.build(file.object((16, struct.pack("<QQ", at + 16, 24)), file.symbols([])))


def attributes_shared():
    """50,000 names of one dataset with an attribute of 60,000 bytes."""
    file = Hdf5()
    w = file.dataset((2,), contiguous(96, 8), attribute(b"text", b"x" * 60_000))
    return file.build(file.group([(b"%d" % i, w) for i in range(50_000)]))


def bad_datasets():
    file = Hdf5()
    w = file.dataset((1 << 40,), contiguous(96, 8))
    return file.build(file.group([(b"%d" % i, w) for i in range(100_000)]))


def deep_types():
    kind = FLOAT
    for _ in range(2_000):
        kind = struct.pack("<BBBBI", 0x39, 0, 0, 0, 16) + kind
    file = Hdf5()
    return file.build(file.group([(b"w", file.dataset((1,), contiguous(96, 8), kind=kind))]))


def chunks_shared(file):
    """Every chunk is one that decodes to 4 MB."""
    stored = zlib.compress(bytes(4_000_000), 9)
    at = file.put(stored)
    tree = chunk_tree(file, [(at, len(stored), (1_000_000 * i,)) for i in range(60_000)], 1)
    return file.dataset((60_000_000_000,), chunked(tree, (1_000_000,)), deflate())


ATTACKS = [
    Attack("hdf5-many", "hdf5", "20,000 datasets in one group", one_file("m.h5", lambda: many(20_000))),
    Attack("hdf5-groups-multiply", "hdf5", "60 groups with two links each to the next: 2^60 paths",
           one_file("m.h5", groups_multiply), REFUSED),
    Attack("hdf5-nodes-shared", "hdf5", "4,000 groups share the names of 1,000 datasets", one_file("m.h5", nodes_shared), REFUSED),
    Attack("hdf5-names-shared", "hdf5", "32,000 links share a name of 60,000 bytes", one_file("m.h5", names_shared), REFUSED),
    Attack("hdf5-attributes-shared", "hdf5", "50,000 names of a dataset with an attribute of 60,000 bytes",
           one_file("m.h5", attributes_shared), REFUSED),
    Attack("hdf5-continuations", "hdf5", "2,000 continuation blocks of an object header overlap", one_file("m.h5", continuations),
           REFUSED),
    Attack("hdf5-continuation-loop", "hdf5", "an object header continues in itself", one_file("m.h5", continuation_loop)),
    Attack("hdf5-bad-datasets", "hdf5", "100,000 names of a dataset outside of the file: a warning each",
           one_file("m.h5", bad_datasets)),
    Attack("hdf5-deep-types", "hdf5", "a datatype of 2,000 nested ones", one_file("m.h5", deep_types)),
    Attack("hdf5-fill-4-tib", "hdf5", "a dataset of 4 TiB that was never written",
           one_dataset(lambda file: file.dataset((1 << 40, ), contiguous(NOWHERE, 0)))),
    Attack("hdf5-chunk-1-gib", "hdf5", "chunks of 1 GiB in 2 kB",
           one_dataset(lambda file: file.dataset((1 << 15, 1 << 15), chunked(NOWHERE, (1 << 14, 1 << 14))))),
    Attack("hdf5-chunks-shared", "hdf5", "60,000 chunks are one that decodes to 4 MB", one_dataset(chunks_shared)),
]
