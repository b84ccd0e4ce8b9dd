"""BinTensors, both layouts: claims, holes, lists of varints, names."""
from attack import EITHER, REFUSED, Attack, little, one_file, sparse
import containers

F32 = 11
TEXT = containers.bincode_string
NUMBER = containers.varint


def container(header, data=b""):
    header += b" " * (-len(header) % 8)
    return little(len(header)) + header + data


def info(shape=(0,), begin=0, end=0):
    return b"".join(map(NUMBER, (F32, len(shape), *shape, begin, end)))


def release(names, shape=(0,)):
    names = list(names)
    return container(b"\0" + NUMBER(len(names)) + b"".join(NUMBER(len(name)) + name + info(shape) for name in names))


def legacy(count, names, shape=(0,)):
    """`names`: (name, index)."""
    names = list(names)
    return container(b"\0" + NUMBER(count) + info(shape) * count + NUMBER(len(names)) +
                     b"".join(NUMBER(len(name)) + name + NUMBER(place) for name, place in names))


def metadata(pairs):
    pairs = list(pairs)
    return container(b"\1" + NUMBER(len(pairs)) + b"".join(TEXT(key) + TEXT(value) for key, value in pairs) + b"\0")


def file(make):
    return one_file("m.bt", make)


def hole(begin, header=100_000_000):
    """A header that extends into a hole: zeros are empty names, empty lists, and offsets of 0."""
    return sparse("m.bt", lambda: little(header) + begin, 8 + header)


ATTACKS = [
    Attack("bintensors-tensors-claimed", "bintensors", "2^63 tensors claimed",
           file(lambda: container(b"\0" + NUMBER(1 << 63) + bytes(64))), REFUSED),
    Attack("bintensors-metadata-claimed", "bintensors", "2^63 texts claimed",
           file(lambda: container(b"\1" + NUMBER(1 << 63) + bytes(64))), REFUSED),
    Attack("bintensors-name-claimed", "bintensors", "a name of 2^64 - 1 bytes",
           file(lambda: container(b"\0\1" + NUMBER((1 << 64) - 1) + bytes(64))), REFUSED),
    Attack("bintensors-dimensions-claimed", "bintensors", "2^62 dimensions",
           file(lambda: container(b"\0\1" + TEXT("a") + NUMBER(F32) + NUMBER(1 << 62) + bytes(64))), REFUSED),
    Attack("bintensors-dimensions-long", "bintensors", "a list of 4,000,000 dimensions, a byte each", file(
        lambda: container(b"\0\1" + TEXT("a") + NUMBER(F32) + NUMBER(4_000_000) + bytes(4_000_002))), REFUSED),
    Attack("bintensors-dimensions-1024", "bintensors", "2,000 tensors of 1,024 dimensions, a byte each", file(
        lambda: release((b"%d" % i for i in range(2_000)), (0,) * 1_024))),
    Attack("bintensors-numbers-wide", "bintensors", "numbers that take nine bytes each", file(
        lambda: container(b"\0\1" + TEXT("a") + b"\xfd\x0b" + bytes(7) + b"\xfd\1" + bytes(7) + (b"\xfd" + bytes(8)) * 3)), EITHER),
    Attack("bintensors-shape-wraps", "bintensors", "a shape whose product wraps",
           file(lambda: release([b"a"], (1 << 32, 1 << 32, 4))), REFUSED),
    Attack("bintensors-hole-release", "bintensors", "600,000 tensors in a hole", hole(b"\0" + NUMBER(600_000))),
    Attack("bintensors-hole-legacy", "bintensors-legacy", "1,000,000 tensors in a hole", hole(b"\0" + NUMBER(1_000_000))),
    Attack("bintensors-hole-metadata", "bintensors", "65,000 empty texts in a hole", hole(b"\1" + NUMBER(65_000))),
    Attack("bintensors-hole-alone", "bintensors", "a file of 100 MB that is a hole", sparse("m.bt", lambda: b"\0", 100_000_008)),
    Attack("bintensors-names-65535", "bintensors", "60 names of 65,535 bytes",
           file(lambda: release(b"%03d" % i + b"n" * 65_532 for i in range(60)))),
    Attack("bintensors-names-controls", "bintensors", "60 names of 65,535 control characters",
           file(lambda: release(b"%03d" % i + b"\1" * 65_532 for i in range(60)))),
    Attack("bintensors-names-31-components", "bintensors", "30,000 names of 31 components",
           file(lambda: release(b"%d/" % i + b"a/" * 29 + b"w" for i in range(30_000)))),
    Attack("bintensors-one-name", "bintensors", "100,000 tensors of one name",
           file(lambda: release([b"same"] * 100_000)), REFUSED),
    Attack("bintensors-tensors-100000", "bintensors", "100,000 tensors without bytes, names of 1 to 6 bytes",
           file(lambda: release(b"%x" % i for i in range(100_000)))),
    Attack("bintensors-metadata-65536", "bintensors", "65,536 texts",
           file(lambda: metadata((str(i), "") for i in range(65_536)))),
    Attack("bintensors-metadata-one-key", "bintensors", "65,536 times one key", file(lambda: metadata([("k", "v")] * 65_536))),
    Attack("bintensors-metadata-controls", "bintensors", "a text of 8 MB of control characters",
           file(lambda: metadata([("k", "\1" * 8_000_000)]))),
    Attack("bintensors-legacy-one-place", "bintensors-legacy", "100,000 names of one tensor",
           file(lambda: legacy(1, ((b"%d" % i, 0) for i in range(100_000)))), REFUSED),
    Attack("bintensors-legacy-unnamed", "bintensors-legacy", "200,000 tensors with one name",
           file(lambda: legacy(200_000, [(b"a", 0)])), REFUSED),
    Attack("bintensors-legacy-places", "bintensors-legacy", "places beyond the list",
           file(lambda: legacy(2, [(b"a", 0), (b"b", 1 << 60)])), REFUSED),
    Attack("bintensors-legacy-dimensions", "bintensors-legacy", "1,500 tensors of 1,024 dimensions, legacy", file(
        lambda: legacy(1_500, ((b"%d" % i, i) for i in range(1_500)), (0,) * 1_024))),
]
