"""Flax' MessagePack, and the legacy ggml files of whisper.cpp."""
import struct

from attack import REFUSED, SHOWN, Attack, honest, one_file, pack, sparse


def big(layout, *values):
    return struct.pack(">" + layout, *values)


def text(data):
    return b"\xDA" + big("H", len(data)) + data


def entries(pairs):
    pairs = list(pairs)
    return b"\xDF" + big("I", len(pairs)) + b"".join(text(key) + value for key, value in pairs)


def array(shape=b"\x90", dtype=b"\xA4int8", data=b"\xC4\1x", type=b"\1"):
    payload = b"\x93" + shape + dtype + data
    return b"\xC9" + big("I", len(payload)) + type + payload


def chunked(chunks, shape):
    return entries([(b"__msgpack_chunked_array__", b"\xC3"), (b"shape", shape), (b"chunks", entries(chunks))])


def file(make):
    return one_file("m.msgpack", make)


def number(n):
    return pack("i", n)


HEADER = b"lmgg" + b"".join(map(number, (3, 4, 4, 1, 1, 4, 4, 1, 1, 2, 1)))


def whisper(tensors=b"", filters=number(0) * 2, tokens=number(0)):
    return HEADER + filters + tokens + tensors


def tensor(name, dims=(1,), data=b"x", type=24):
    return number(len(dims)) + number(len(name)) + number(type) + b"".join(map(number, dims)) + name + data


def ggml(make):
    return one_file("ggml-m.bin", make)


ONE = b"\xA1w" + array()
ATTACKS = [
    Attack("flax-maps-deep", "flax", "1,000,000 nested maps", file(lambda: b"\x81\xA1a" * 1_000_000 + array()), REFUSED),
    Attack("flax-lists-deep", "flax", "4,000,000 nested lists", file(lambda: b"\x82" + ONE + b"\xA1l" + b"\x91" * 4_000_000),
           REFUSED),
    Attack("flax-map-claimed", "flax", "a map of 2^32 - 1 entries", file(lambda: b"\xDF\xFF\xFF\xFF\xFF" + ONE), REFUSED),
    Attack("flax-extension-claimed", "flax", "an extension of 4 GiB", file(lambda: b"\x81\xA1w\xC9\xFF\xFF\xFF\xFF\1abc"), REFUSED),
    Attack("flax-numbers", "flax", "a list of 20,000,000 numbers",
           file(lambda: b"\x82" + ONE + b"\xA1l\xDD" + big("I", 20_000_000) + bytes(20_000_000)), SHOWN | REFUSED),
    Attack(
        "flax-scalars", "flax", "1,000,000 scalars beside an array",
        file(lambda: b"\x82" + ONE + b"\xA1m" + b"\xDF" + big("I", 1_000_000) + b"".join(b"\xA4%04x\1" % (i & 0xFFFF)
                                                                                         for i in range(1_000_000))),
        SHOWN | REFUSED),
    Attack("flax-arrays-small", "flax", "1,000,000 arrays of a byte",
           file(lambda: entries((b"%d" % i, array()) for i in range(1_000_000))), SHOWN | REFUSED),
    Attack("flax-paths-long", "flax", "100,000 arrays with a path of 60,000 bytes",
           file(lambda: b"\x81" + text(b"p" * 60_000) + entries((b"%d" % i, array()) for i in range(100_000))), SHOWN | REFUSED),
    Attack("flax-dimensions", "flax", "2,000 arrays of 1,024 dimensions",
           file(lambda: entries((b"%d" % i, array(b"\xDC\4\0" + b"\1" * 1024)) for i in range(2_000))), SHOWN),
    Attack("flax-dimensions-refused", "flax", "200 arrays of 65,535 dimensions",
           file(lambda: entries((b"%d" % i, array(b"\xDC\xFF\xFF" + b"\1" * 65_535)) for i in range(200))), SHOWN),
    Attack("flax-dtypes", "flax", "100,000 unknown dtypes",
           file(lambda: entries((b"%d" % i, array(dtype=text(b"x%d" % i))) for i in range(100_000))), SHOWN | REFUSED),
    Attack(
        "flax-chunks", "flax", "an array of 300,000 chunks",
        file(lambda: entries([(
            b"w", chunked(((b"%d" % i, array()) for i in range(300_000)), entries([(b"0", b"\xCE" + big("I", 300_000))])))])),
        SHOWN | REFUSED),
    Attack("flax-chunks-one-index", "flax", "an array of 300,000 chunks with one index",
           file(lambda: entries([(b"w", chunked(((b"0", array()) for i in range(300_000)), entries([])))])), SHOWN | REFUSED),
    Attack("flax-hole", "flax", "zeros in a hole after the map", sparse("m.msgpack", lambda: b"\x81" + ONE, 1 << 40), SHOWN),
    Attack("ggml-tokens-claimed", "ggml", "2^31 - 1 tokens", ggml(lambda: whisper(tokens=number(2**31 - 1))), REFUSED),
    Attack("ggml-tokens-empty", "ggml", "5,000,000 empty tokens",
           ggml(lambda: whisper(tokens=number(5_000_000) + bytes(20_000_000))), SHOWN | REFUSED),
    Attack("ggml-tokens-hole", "ggml", "2^31 - 1 empty tokens in a hole",
           sparse("ggml-m.bin", lambda: whisper(tokens=number(2**31 - 1)), 1 << 40), REFUSED),
    Attack("ggml-filters-claimed", "ggml", "mel filters of 2^64 bytes", ggml(lambda: whisper(filters=number(2**31 - 1) * 2)),
           REFUSED),
    Attack("ggml-tensors-empty", "ggml", "1,000,000 tensors without bytes",
           ggml(lambda: whisper(tensor(b"a", (0, ), b"") * 1_000_000)), SHOWN | REFUSED),
    Attack("ggml-name-claimed", "ggml", "a name of 2 GiB",
           ggml(lambda: whisper(tensor(b"a") + number(1) + number(2**31 - 1) + number(24) + number(1))), SHOWN),
    Attack("ggml-hole", "ggml", "zeros in a hole after a tensor", sparse("ggml-m.bin", lambda: whisper(tensor(b"a")), 1 << 40),
           SHOWN),
    honest("flax-20000", "flax", "20,000 arrays", file(lambda: entries((b"layer/%d" % i, array()) for i in range(20_000)))),
]
