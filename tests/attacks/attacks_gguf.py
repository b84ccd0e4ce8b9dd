"""GGUF: counts, nested arrays, keys, holes that are valid records, documents, and splits that are one file."""
import os

from attack import REFUSED, Attack, links_to, one_file, pack, put, sparse

U8, I8, U16, U32, BOOL, STRING, ARRAY, U64 = 0, 1, 2, 4, 7, 8, 9, 10


def text(data):
    return pack("Q", len(data)) + data


def head(tensors, keys, version=3):
    return pack("4sIQQ", b"GGUF", version, tensors, keys)


def pair(key, kind, value):
    return text(key) + pack("I", kind) + value


def array(kind, count, elements=b""):
    return pack("IQ", kind, count) + elements


def tensor(name, dimensions=(1,), kind=24, offset=0):
    return text(name) + pack(f"I{len(dimensions)}Q", len(dimensions), *dimensions) + pack("IQ", kind, offset)


def model(pairs=(), tensors=(), data=b"1" * 64, keys=None, count=None):
    """A file of these entries and tensors; the counts may be wrong."""
    pairs, tensors = list(pairs), list(tensors)
    begin = head(len(tensors) if count is None else count,
                 len(pairs) if keys is None else keys) + b"".join(pairs) + b"".join(tensors)
    return begin + bytes(-len(begin) % 32) + data


def file(make):
    return one_file("m.gguf", make)


def nested_arrays(depth, width):
    """An array of arrays of … of `width` empty ones."""
    value = array(U8, 0)
    value = array(ARRAY, width, value * width)
    for _ in range(depth - 2):
        value = array(ARRAY, 1, value)
    return value


def arrays_deep(count):
    return (pack("IQ", ARRAY, 1) * count) + array(U8, 0)


def split(number, count, tensors):
    return model([pair(b"split.no", U16, pack("H", number)), pair(b"split.count", U16, pack("H", count)),
                  pair(b"split.tensors.count", 5, pack("i", 1))], tensors)


def splits(count, tensors, hard):
    """Shards that are all links to one file."""
    def build(folder):
        names = [f"m-{i + 1:05}-of-{count:05}.gguf" for i in range(count)]
        put(folder, names[0], split(0, count, [tensor(b"t%d" % i) for i in range(tensors)]))
        links_to(folder, names[0], names[1:], hard)
        return names[0]
    return build


def zipped_splits(count, tensors):
    def build(folder):
        from attacks_zip import RawZip
        with RawZip(os.path.join(folder, "m.zip")) as out:
            shard = split(0, count, [tensor(b"t%d" % i) for i in range(tensors)])
            at = out.local(b"", shard)
            for i in range(count):
                out.entry(f"m-{i + 1:05}-of-{count:05}.gguf", at, len(shard), len(shard))
        return "m.zip"
    return build


def split_99999(folder):
    put(folder, "m-00001-of-99999.gguf", split(0, 65_535, [tensor(b"t")]))
    links_to(folder, "m-00001-of-99999.gguf", [f"m-{i:05}-of-99999.gguf" for i in range(2, 300)], True)
    return "m-00001-of-99999.gguf"


def holes(folder, count, size):
    with open(os.path.join(folder, "m.gguf"), "wb") as out:
        out.write(head(0, count))
        for i in range(count):
            out.write(pair(b"k%d" % i, ARRAY, array(U8, size)))
            out.seek(size, os.SEEK_CUR)
        out.truncate(out.tell() + 64)
    return "m.gguf"


ATTACKS = [
    # Counts.
    Attack("gguf-tensors-claimed", "gguf", "2^60 tensors claimed", file(lambda: head(1 << 60, 0) + bytes(100)), REFUSED),
    Attack("gguf-keys-claimed", "gguf", "2^60 entries claimed", file(lambda: head(0, 1 << 60) + bytes(100)), REFUSED),
    Attack("gguf-string-claimed", "gguf", "a text of 2^63 bytes",
           file(lambda: head(0, 1) + text(b"k") + pack("IQ", STRING, 1 << 63) + bytes(100)), REFUSED),
    Attack("gguf-array-claimed", "gguf", "an array of 2^61 numbers",
           file(lambda: head(0, 1) + pair(b"k", ARRAY, array(U64, 1 << 61, bytes(100)))), REFUSED),
    Attack("gguf-dimensions-claimed", "gguf", "2^32 - 1 dimensions",
           file(lambda: head(1, 0) + text(b"t") + pack("I", (1 << 32) - 1) + bytes(1000)), REFUSED),
    Attack("gguf-shape-wraps", "gguf", "sizes of 2^63, whose product wraps",
           file(lambda: model(tensors=[tensor(b"t", (1 << 63, 2, 1 << 40))]))),
    Attack("gguf-offsets-wrap", "gguf", "10,000 offsets near 2^64",
           file(lambda: model(tensors=[tensor(b"t%d" % i, offset=(1 << 64) - 1 - i) for i in range(10_000)]))),

    # Arrays.
    Attack("gguf-arrays-deep", "gguf", "arrays nested 500,000 deep", file(lambda: model([pair(b"k", ARRAY, arrays_deep(500_000))])),
           REFUSED),
    Attack("gguf-arrays-16-deep", "gguf", "arrays nested 16 deep around 300,000 empty ones",
           file(lambda: model([pair(b"k", ARRAY, nested_arrays(15, 300_000))]))),
    Attack("gguf-arrays-16-deep-many", "gguf", "5,000 arrays nested 15 deep",
           file(lambda: model([pair(b"k%d" % i, ARRAY, nested_arrays(15, 1)) for i in range(5_000)]))),
    Attack("gguf-arrays-1024-empty", "gguf", "300 arrays of 1,023 empty arrays",
           file(lambda: model([pair(b"k%d" % i, ARRAY, nested_arrays(2, 1_023)) for i in range(300)]))),
    Attack("gguf-bytes-shown-as-text", "gguf", "an array of 3,000,000 bytes: five times that as JSON",
           file(lambda: model([pair(b"k", ARRAY, array(I8, 3_000_000, b"\x80" * 3_000_000))]))),
    Attack("gguf-bools", "gguf", "an array of 3,000,000 truth values",
           file(lambda: model([pair(b"k", ARRAY, array(BOOL, 3_000_000, bytes(3_000_000)))]))),
    Attack("gguf-floats", "gguf", "an array of 700,000 floats with long decimals",
           file(lambda: model([pair(b"k", ARRAY, array(6, 700_000, b"\1\2\3\4" * 700_000))]))),
    Attack("gguf-empty-texts", "gguf", "an array of 375,000 empty texts",
           file(lambda: model([pair(b"k", ARRAY, array(STRING, 375_000, bytes(3_000_000)))]))),
    Attack("gguf-texts-of-controls", "gguf", "a text of 3 MB of control characters",
           file(lambda: model([pair(b"k", STRING, text(b"\1" * 3_000_000))]))),
    Attack("gguf-documents", "gguf", "4,000 arrays of 1,025 elements, a document each",
           file(lambda: model([pair(b"k%d" % i, ARRAY, array(U8, 1_025, bytes(1_025))) for i in range(4_000)]))),
    Attack(
        "gguf-documents-one-name", "gguf", "2,000 documents whose names clash",
        file(lambda: model([pair(b"." * (i + 1), ARRAY, array(U8, 1_025, bytes(1_025))) for i in range(1_000)] +
                           [pair(b"n" * 300 + b"%d" % i, ARRAY, array(U8, 1_025, bytes(1_025))) for i in range(1_000)]))),

    # Keys and names.
    Attack("gguf-keys-65536", "gguf", "65,536 keys", file(lambda: model(pair(b"k%d" % i, U8, b"1") for i in range(65_536)))),
    Attack("gguf-keys-repeated", "gguf", "65,000 times one key",
           file(lambda: model(pair(b"same", U8, b"1") for i in range(65_000)))),
    Attack("gguf-keys-65535", "gguf", "100 keys of 65,535 bytes",
           file(lambda: model(pair(b"%03d" % i + b"\xff" * 65_532, U8, b"1") for i in range(60)))),
    Attack("gguf-names-repeated", "gguf", "50,000 tensors of one name", file(lambda: model(tensors=[tensor(b"same")] * 50_000))),
    Attack("gguf-names-empty", "gguf", "80,000 tensors without a name", file(lambda: model(tensors=[tensor(b"", ())] * 80_000))),
    Attack("gguf-names-65535", "gguf", "60 names of 65,535 bytes that are not UTF-8",
           file(lambda: model(tensors=[tensor(b"%03d" % i + b"\xff" * 65_532) for i in range(60)]))),
    Attack("gguf-names-31-components", "gguf", "30,000 names of 31 components",
           file(lambda: model(tensors=[tensor(b"%d/" % i + b"a/" * 29 + b"w") for i in range(30_000)]))),
    Attack("gguf-dimensions-1024", "gguf", "1,000 tensors of 1,024 dimensions",
           file(lambda: model(tensors=[tensor(b"t%d" % i, (1, ) * 1_024) for i in range(1_000)]))),
    Attack("gguf-types-unknown", "gguf", "40,000 unknown types",
           file(lambda: model(tensors=[tensor(b"t%d" % i, kind=1_000 + i) for i in range(40_000)]))),
    Attack(
        "gguf-alignment", "gguf", "an alignment of 2^30",
        file(lambda: model([pair(b"general.alignment", U32, pack("I", 1 << 30))],
                           [tensor(b"t%d" % i, offset=i << 30) for i in range(1_000)]))),
    Attack("gguf-version-1", "gguf", "version 1 with 2^32 - 1 tensors",
           file(lambda: pack("4sIII", b"GGUF", 1, (1 << 32) - 1, 0) + bytes(1000)), REFUSED),

    # Holes.
    Attack("gguf-hole-of-tensors", "gguf", "2,000,000 tensors in a hole: 24 zeros are a valid one",
           sparse("m.gguf", lambda: head(2_000_000, 0), 64 << 20)),
    Attack("gguf-hole-of-keys", "gguf", "65,536 entries in a hole: 13 zeros are a valid one",
           sparse("m.gguf", lambda: head(0, 65_536), 1 << 30)),
    Attack("gguf-hole-of-texts", "gguf", "30,000,000 empty texts in a hole",
           sparse("m.gguf", lambda: head(0, 1) + pair(b"k", ARRAY, array(STRING, 30_000_000)), 250 << 20)),
    Attack("gguf-hole-of-numbers", "gguf", "250,000,000 bytes of an array in a hole",
           sparse("m.gguf", lambda: head(0, 1) + pair(b"k", ARRAY, array(U8, 250_000_000)), 256 << 20)),
    Attack("gguf-hole-documents", "gguf", "60 arrays of 500,000 zeros in holes", lambda folder: holes(folder, 60, 500_000)),
    Attack("gguf-hole-text", "gguf", "a text of 30 MB in a hole: six bytes for each in JSON",
           sparse("m.gguf", lambda: head(0, 1) + text(b"k") + pack("IQ", STRING, 30_000_000), 32 << 20)),
    Attack("gguf-hole-name", "gguf", "a key of 200 MB in a hole",
           sparse("m.gguf", lambda: head(0, 1) + pack("Q", 200 << 20), 256 << 20)),

    # Splits.
    Attack("gguf-split-hard-links", "gguf split", "5,000 hard links to one shard of 400 tensors", splits(5_000, 400, True)),
    Attack("gguf-split-symbolic-links", "gguf split", "300 symbolic links to one shard of 6,000 tensors", splits(300, 6_000,
                                                                                                                 False)),
    Attack("gguf-split-links-large", "gguf split", "100 hard links to one shard of 20,000 tensors", splits(100, 20_000, True)),
    Attack("gguf-split-zip-shared", "zip", "5,000 members of a zip share one shard of 400 tensors", zipped_splits(5_000, 400)),
    Attack("gguf-split-99999", "gguf split", "99,999 shards, of which 300 are there", split_99999),
]
