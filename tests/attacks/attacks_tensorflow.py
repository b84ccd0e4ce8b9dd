"""TensorFlow: tables whose places and lengths lie, variables in many slices, constants that repeat one value, names above many
nodes."""
import os

from attack import REFUSED, SHOWN, Attack, honest, one_file, pack, put
from protobuf import data, number, varint

FLOAT, UINT8 = 1, 4
MAGIC = bytes.fromhex("57fb808b247547db")
DATA = "m.data-00000-of-00001"


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC = crc_table()


def trailed(block, compression=0):
    """A block with its compression and its checksum."""
    block += bytes([compression])
    crc = 0xFFFFFFFF
    for byte in block:
        crc = CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return block + pack("I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def entries(pairs):
    """A block of entries that share nothing, and one restart."""
    return b"".join(b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in pairs) + pack("II", 0, 1)


def table(block, compression=0, handles=1):
    """A table of one block, which its index has `handles` times."""
    place = varint(0) + varint(len(block))
    index = entries([(i.to_bytes(4, "big") if handles > 1 else b"\xFF", place) for i in range(handles)])
    stored = trailed(block, compression)
    footer = (varint(0) * 2 + varint(len(stored)) + varint(len(index))).ljust(40, b"\0")
    return stored + trailed(index) + footer + MAGIC


def header(shards=1):
    return number(1, shards)


def shape(*sizes):
    return data(2, b"".join(data(2, number(1, size)) for size in sizes))


def entry(type, sizes, size, *fields, shard=0, offset=0):
    return number(1, type) + shape(*sizes) + number(3, shard) + number(4, offset) + number(5, size) + b"".join(fields)


def checkpoint(make, values=b"x"):
    """`make`: the entries after the header."""
    def build(folder):
        put(folder, DATA, values)
        return put(folder, "m.index", table(entries([(b"", header())] + sorted(make()))))
    return build


def ordered(number):
    """A number from 0 to 8191 in the code of keys."""
    return bytes([0x80 ^ number]) if number < 64 else bytes([0xC0 | number >> 8, number & 0xFF])


def slice_of(*extents):
    return b"".join(data(1, number(1, start) + number(2, length)) for start, length in extents)


def columns(count):
    """A variable of one row, of which each element is a slice."""
    head = b"\0w\0\1" + b"\1\2" + ordered(0) + ordered(1)
    out = [(head + ordered(i) + ordered(1), entry(UINT8, (1, 1), 1)) for i in range(count)]
    slices = b"".join(data(7, slice_of((0, 1), (i, 1))) for i in range(count))
    return out + [(b"w", entry(UINT8, (1, count), 0, slices))]


def graph(make):
    return one_file("graph.pb", make)


def node(name, op="N", *fields):
    return data(1, data(1, name) + data(2, op) + b"".join(fields))


def constant(name, tensor):
    return node(name, "Const", data(5, data(1, "value") + data(2, data(8, tensor))))


def function(name, nodes):
    """A library with one function."""
    inner = b"".join(b"\x1A" + each[1:] for each in nodes)
    return data(2, data(1, data(1, data(1, name)) + inner))


def nested_functions(depth):
    value = data(10, data(1, "f"))
    for _ in range(depth):
        value = data(10, data(1, "f") + data(2, data(1, "a") + data(2, value)))
    return node("n", "N", data(5, data(1, "a") + data(2, value)))


FILLED = number(1, FLOAT) + shape(1 << 14, 1 << 14) + data(5, pack("f", 1))

ATTACKS = [
    Attack("tensorflow-handles-shared", "tensorflow-checkpoint", "20,000 places of one block",
           one_file("m.index", lambda: table(entries([(b"", header())]), handles=20_000)), REFUSED),
    Attack("tensorflow-snappy-4-gb", "tensorflow-checkpoint", "a block of Snappy that decodes to 4 GiB",
           one_file("m.index", lambda: table(varint((1 << 32) - 1) + bytes(100), 1)), REFUSED),
    Attack("tensorflow-files", "tensorflow-checkpoint", "20,000 tensors, each in another file of 2^31",
           one_file("m.index", lambda: table(entries([(b"", header((1 << 31) - 1))] + [
               (b"%05d" % i, entry(UINT8, (1,), 1, shard=i)) for i in range(20_000)]))), SHOWN),
    Attack("tensorflow-slices", "tensorflow-checkpoint", "a variable in 8,000 slices beside each other",
           checkpoint(lambda: columns(8_000))),
    Attack("tensorflow-file-link", "tensorflow-checkpoint", "a file with tensors that is a link out of the directory",
           lambda folder: (os.symlink("/etc/passwd", os.path.join(folder, DATA)),
                           put(folder, "m.index", table(entries([(b"", header()), (b"w", entry(UINT8, (4,), 4))]))))[1], SHOWN),
    Attack("tensorflow-constants-filled", "tensorflow-graph", "2,000 constants of 1 GiB in 70 bytes each",
           graph(lambda: b"".join(constant(f"{i}", FILLED) for i in range(2_000)))),
    Attack("tensorflow-functions-deep", "tensorflow-graph", "10,000 functions in attributes of functions",
           graph(lambda: nested_functions(10_000))),
    Attack("tensorflow-function-name-long", "tensorflow-graph", "a name of 60 KB above 50,000 constants",
           graph(lambda: node("n") + function("f" * 60_000, [constant("c", number(1, UINT8))] * 50_000))),
    honest("tensorflow", "tensorflow-checkpoint", "10,000 variables",
           checkpoint(lambda: [(b"layer_%05d/kernel" % i, entry(UINT8, (1,), 1)) for i in range(10_000)])),
]
