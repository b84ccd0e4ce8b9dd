"""Zips: overlapping and shared members, streams that decode to nothing, false directories, names."""
import os
import shutil
import struct
import zlib

from attack import EITHER, REFUSED, SHOWN, Attack, one_file, put
import archives
import attacks_gguf
import attacks_safetensors

STORED, DEFLATE, ZSTD = archives.STORED, archives.DEFLATE, archives.ZSTD
LINK = 0o120777

# Streams of a megabyte that decode to one byte or none.
EMPTY_STORED = b"\0\0\0\xff\xff"  # a Deflate block of no bytes, not the last
LAST_STORED = b"\1\1\0\xfe\xffx"
EMPTY_FRAME = struct.pack("<IBB", 0xFD2FB528, 0x20, 0) + b"\1\0\0"  # a zstd frame of no bytes


def empty_fixed_blocks(size):
    """Empty Deflate blocks with fixed codes, 10 bits each (01 1: not last; type 1; 0000000: the end)."""
    bits = "".join(reversed(("0" * 7 + "01" + "0") * 4))  # 40 bits are 5 bytes
    pattern = sum(1 << (10 * i + 1) for i in range(4)).to_bytes(5, "little")
    assert len(bits) == 40
    return pattern * (size // 5) + LAST_STORED


def dynamic_block():
    """A Deflate block with dynamic codes of which only the end code is used, so decoding builds its tables without output."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = bytes(range(256)) * 2 + b"abcabcabd" * 8
    block = packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)
    return block, data


def empty_stored(size=1 << 20):
    return EMPTY_STORED * (size // 5) + LAST_STORED


def skippable(size=1 << 20):
    """zstd frames that decoders skip, then one with a byte."""
    return struct.pack("<II", 0x184D2A50, 0) * (size // 8) + archives.zstd(b"x")


def empty_raw_blocks(size=1 << 20):
    """One zstd frame of blocks without bytes."""
    return struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x38, 1) + b"\0\0\0" * (size // 3) + struct.pack("<I", 1 << 3 | 1)[:3] + b"x"


class RawZip(archives.Zip):
    """A zip whose directory may differ from its bytes."""

    def bytes_at(self, data):
        """Writes bytes without an entry; returns their offset."""
        at = self.file.tell()
        self.file.write(data)
        return at

    def local(self, name, packed, method=STORED, extra=b""):
        """Writes a local header and bytes, without an entry; returns the offset of the header."""
        return self.bytes_at(
            b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 0x21, 0, len(packed), len(packed), len(name), len(extra)) +
            name + extra + packed)

    def entry(self, name, offset, packed, size, method=STORED, crc=0, mode=0o100644, extra=b"", comment=b"", flags=0):
        raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
        self.directory.append(b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 0x032E, 20, flags, method, 0, 0x21, crc, packed, size,
                                                      len(raw), len(extra), len(comment), 0, 0, mode << 16, offset) + raw + extra +
                              comment)


def zipped(fill, name="m.zip"):
    """A builder: `fill(out)` writes the members."""
    def build(folder):
        with RawZip(os.path.join(folder, name)) as out:
            fill(out)
        return name
    return build


def shared(count, make, data, method, suffix="", mode=0o100644, size=None):
    """`count` members that are the same range of the file. `data`: the declared decoded data."""
    def fill(out):
        packed, crc = make(), zlib.crc32(data)
        at = out.local(b"", packed, method)
        for i in range(count):
            out.entry(f"{i}{suffix}", at, len(packed), len(data) if size is None else size, method, crc, mode)
    return zipped(fill)


def fifield(count, kernel):
    """Members that overlap fully: each quotes the local header of the next as a stored Deflate block."""
    def fill(out):
        packed = zlib.compressobj(9, zlib.DEFLATED, -15)
        body = packed.compress(bytes(kernel)) + packed.flush()
        headers, size, length = [], kernel, len(body)
        for i in reversed(range(count)):
            name = b"%04d" % i
            header = b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, DEFLATE, 0, 0x21, 0, length, size, len(name), 0) + name
            headers.append((name, header, length, size))
            quote = b"\0" + struct.pack("<HH", len(header), len(header) ^ 0xFFFF)
            size += len(header)
            length += len(header) + len(quote)
        at = 0
        for i, (name, header, length, size) in enumerate(reversed(headers)):
            begin = out.bytes_at(header if i + 1 == count else header + b"\0" + struct.pack("<HH", len(header),
                                                                                            len(header) ^ 0xFFFF))
            out.entry(name, begin, length, size, DEFLATE)
            at = begin
        out.bytes_at(body)
        return at
    return zipped(fill)


def names(make, count, data=b"x"):
    def fill(out):
        at = out.local(b"", data)
        for i in range(count):
            out.entry(make(i), at, len(data), len(data), crc=zlib.crc32(data))
    return zipped(fill)


def nested_stored(depth, width=1):
    """Zips inside zips, each stored, so that all of them share the innermost's bytes; `width` entries each."""
    def build(folder):
        inner = b""
        for level in range(depth):
            path = os.path.join(folder, "m.zip")
            with RawZip(path) as out:
                data = inner or b"end"
                at = out.local(b"", data)
                for i in range(width):
                    out.entry(f"{i}.zip" if inner else f"{i}.txt", at, len(data), len(data), crc=zlib.crc32(data))
            with open(path, "rb") as file:
                inner = file.read()
        return "m.zip"
    return build


def shared_models(count, make, suffix):
    """`count` members that are one stored model, each of which is entered below nested/."""
    def build(folder):
        data = inner(os.path.join(folder, "inner"), make)
        return shared(count, lambda: data, data, STORED, suffix)(folder)
    return build


def inner(folder, make):
    """The bytes of the file that a builder writes in a temporary directory."""
    os.mkdir(folder)
    with open(os.path.join(folder, make(folder)), "rb") as file:
        data = file.read()
    shutil.rmtree(folder)
    return data


def gguf(count):
    return one_file("inner.gguf",
                    lambda: attacks_gguf.model(tensors=[attacks_gguf.tensor(b"%d/" % i + b"a/" * 29 + b"w") for i in range(count)]))


def safetensors(count):
    return one_file("inner.safetensors", lambda: attacks_safetensors.shard_of(count))


def self_containing(folder):
    """A zip with members that are the zip itself: its range from byte 0 to its end, which its own directory states."""
    count = 30
    record = 46 + len("00.zip")
    size = count * record + 22 + 30
    local = b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, STORED, 0, 0x21, 0, size - 30, size - 30, 0, 0)
    out = b"".join(b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 0x032E, 20, 0, STORED, 0, 0x21, 0, size - 30, size -
                                           30, 6, 0, 0, 0, 0, 0o100644 << 16, 0) + b"%02d.zip" % i for i in range(count))
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(out), 30, 0)
    return put(folder, "m.zip", local + out + end)


def zip64_claims(count, size, offset):
    return lambda folder: put(
        folder, "m.zip", b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset) + b"PK\6\7" + struct.
        pack("<IQI", 0, 0, 1) + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


def end_records(folder):
    """End records throughout the last 64 KiB, each with a separate directory that fits the file."""
    record = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1000, 1000, 46_000, 0, 0)
    return put(
        folder, "m.zip",
        [b"PK\1\2" + bytes(42)] * 1_000 + [record * 2_900, b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1000, 1000, 46_000, 0, 0)])


def chain(out, count=20_000):
    for i in range(count):
        out.link(f"l{i:05}", f"l{i + 1:05}")
    out.write(f"l{count:05}", b"end")


def mixed_methods(out):
    for method in range(100):
        out.write(f"m{method}", b"data", method, packed=b"data")
    out.write("plain.txt", b"plain")


def lying_local_headers(out):
    for i in range(3_000):
        at = out.bytes_at(b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, ZSTD, 0, 0, 1, 2, 3, 65_535, 65_535) + b"other name")
        out.entry(f"{i}", at, 4, 4)
    out.bytes_at(bytes(140_000))


def long_comments(out):
    at = out.local(b"", b"x")
    for i in range(60):
        out.entry(f"{i}", at, 1, 1, extra=struct.pack("<HH", 0xCAFE, 65_531) + bytes(65_531), comment=b"c" * 65_535,
                  crc=zlib.crc32(b"x"))


def zip64_extras(out):
    at = out.local(b"", b"x")
    for i in range(1_000):
        out.entry(f"{i}", 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, extra=struct.pack("<HHQQQ", 1, 24, 1 << 62, 1 << 62, at + i) * 100)


def zstd_windows(out):
    frame = struct.pack("<IBB", 0xFD2FB528, 0x00, 0x88) + struct.pack("<I", 1 << 3 | 1)[:3] + b"x"  # a window of 128 MiB
    at = out.local(b"", frame, ZSTD)
    for i in range(3_000):
        out.entry(f"{i}.gguf", at, len(frame), 1, ZSTD, zlib.crc32(b"x"))


def dynamic_blocks(folder):
    block, data = dynamic_block()
    count = (1 << 20) // len(block)
    return shared(1_000, lambda: block * count + LAST_STORED, data, DEFLATE, ".gguf", size=1)(folder)


RLE = archives.zstd(bytes(128 << 20))  # 128 MiB in 4 KB

ATTACKS = [
    # Shared streams that decode to (almost) nothing: CPU without output.
    Attack("zip-links-empty-stored-blocks", "zip", "2,000 symbolic links share 1 MB of empty stored Deflate blocks",
           shared(2_000, empty_stored, b"x", DEFLATE, mode=LINK)),
    Attack("zip-links-empty-fixed-blocks", "zip", "2,000 symbolic links share 1 MB of empty fixed Deflate blocks",
           shared(2_000, lambda: empty_fixed_blocks(1 << 20), b"x", DEFLATE, mode=LINK)),
    Attack("zip-links-skippable-frames", "zip", "2,000 symbolic links share 1 MB of skippable zstd frames",
           shared(2_000, skippable, b"x", ZSTD, mode=LINK)),
    Attack("zip-links-empty-frames", "zip", "2,000 symbolic links share 1 MB of empty zstd frames",
           shared(2_000, lambda: EMPTY_FRAME * (1 << 17) + archives.zstd(b"x"), b"x", ZSTD, mode=LINK)),
    Attack("zip-links-empty-zstd-blocks", "zip", "2,000 symbolic links share 1 MB of empty zstd blocks",
           shared(2_000, empty_raw_blocks, b"x", ZSTD, mode=LINK)),
    Attack("zip-heads-empty-stored-blocks", "zip", "5,000 members with a model's name share 1 MB of empty Deflate blocks",
           shared(5_000, empty_stored, b"x", DEFLATE, ".safetensors")),
    Attack("zip-heads-empty-dynamic-blocks", "zip", "1,000 members share 1 MB of dynamic Deflate blocks", dynamic_blocks),
    Attack("zip-heads-skippable-frames", "zip", "5,000 members with a model's name share 1 MB of skippable zstd frames",
           shared(5_000, skippable, b"x", ZSTD, ".gguf")),
    Attack("zip-heads-empty-frames", "zip", "20,000 members without a name's hint share 1 MB of empty zstd frames",
           shared(20_000, lambda: EMPTY_FRAME * (1 << 17) + archives.zstd(b"x"), b"x", ZSTD)),
    Attack("zip-heads-distinct-empty-streams", "zip", "200 members of 40 KB each that decode to nothing",
           zipped(lambda out: [out.write(f"{i}.rten", b"x", DEFLATE, packed=empty_stored(40_000)) for i in range(200)])),
    Attack("zip-one-long-empty-stream", "zip", "one member of 8 MB of empty Deflate blocks",
           shared(1, lambda: empty_stored(8 << 20), b"x", DEFLATE, ".carton")),

    # Shared bytes that decode to very much.
    Attack("zip-stored-shared", "zip", "10,000 members are the same stored megabyte",
           shared(10_000, lambda: bytes(1 << 20), bytes(1 << 20), STORED)),
    Attack("zip-deflate-shared", "zip", "5,000 members are the same 10 MB, 10 KB compressed",
           shared(5_000, lambda: archives.deflate(bytes(10 << 20), 9), bytes(10 << 20), DEFLATE)),
    Attack("zip-zstd-shared", "zip", "1,000 members are the same 128 MiB, 4 KB compressed",
           shared(1_000, lambda: RLE, b"", ZSTD, size=128 << 20)),
    Attack("zip-zstd-shared-models", "zip", "1,000 members with a model's name are the same 128 MiB",
           shared(1_000, lambda: RLE, b"", ZSTD, ".safetensors", size=128 << 20)),
    Attack("zip-links-to-128-mib", "zip", "1,000 symbolic links whose text has 128 MiB",
           shared(1_000, lambda: RLE, b"", ZSTD, mode=LINK, size=128 << 20)),
    Attack("zip-overlapping", "zip", "1,000 members that overlap by quoting each other's headers, 1 MB in the last",
           fifield(1_000, 1 << 20), EITHER | {7}),
    Attack("zip-overlapping-large", "zip", "2,500 overlapping members, 20 MB in the last", fifield(2_500, 20 << 20), EITHER | {7}),
    Attack("zip-bomb-claims-less", "zip", "members of 128 MiB that claim one byte", shared(500, lambda: RLE, b"x", ZSTD, ".gguf")),
    Attack("zip-zstd-windows", "zip", "3,000 members with a window of 128 MiB", zipped(zstd_windows)),

    # Archives in archives.
    Attack("zip-contains-itself", "zip", "30 members that are the zip itself", self_containing),
    Attack("zip-nested-7-shared", "zip", "zips in zips to depth 7, 10 members each that share one range", nested_stored(7, 10)),
    Attack("zip-nested-20-shared", "zip", "zips in zips to depth 20, 100 members each that share one range", nested_stored(20,
                                                                                                                           100)),
    Attack("zip-nested-shared-zips", "zip", "500 members are one zip of 1,000 members with 31 components",
           shared_models(500, names(lambda i: f"{i}/" + "a/" * 29 + "f", 1_000), ".zip")),
    Attack("zip-nested-shared-gguf", "zip", "500 members are one GGUF of 1,000 tensors with 31 components",
           shared_models(500, gguf(1_000), ".gguf")),
    Attack("zip-nested-shared-safetensors", "zip", "1,000 members are one safetensors file of 5,000 tensors",
           shared_models(1_000, safetensors(5_000), ".safetensors")),
    Attack("zip-nested-200", "zip", "zips in zips to depth 200", nested_stored(200)),

    # False directories.
    Attack("zip64-count", "zip", "2^62 members claimed", zip64_claims(1 << 62, 46, 0), REFUSED),
    Attack("zip64-size", "zip", "a directory of 2^63 bytes claimed", zip64_claims(1, 1 << 63, 0), REFUSED),
    Attack("zip64-offset", "zip", "a directory at 2^64 - 1", zip64_claims(1, 46, (1 << 64) - 1), REFUSED),
    Attack("zip64-extras", "zip", "1,000 members with 100 false zip64 fields each", zipped(zip64_extras)),
    Attack("zip-end-records", "zip", "2,900 end records that all fit the file", end_records),
    Attack("zip-local-headers-lie", "zip", "3,000 local headers with other names, methods and lengths",
           zipped(lying_local_headers)),
    Attack("zip-offsets-outside", "zip", "50,000 members beyond the file",
           zipped(lambda out: [out.entry(f"{i}", 0xFFFFFFF0, 100, 100) for i in range(50_000)])),
    Attack("zip-claims-sizes", "zip", "10,000 members of 4 GB claimed, of one byte", names(lambda i: f"{i}", 10_000), SHOWN),
    Attack("zip-method-99", "zip", "one member of an unknown method must not refuse the others",
           zipped(lambda out: [out.write("good.txt", b"good"),
                               out.write("bad.txt", b"bad", 99, packed=b"bad")]), SHOWN),
    Attack("zip-all-methods", "zip", "a member of each method from 0 to 99", zipped(mixed_methods), SHOWN),
    Attack("zip-encrypted", "zip", "10,000 encrypted members",
           zipped(lambda out: [out.entry(f"{i}.gguf", 0, 10, 10, flags=1) for i in range(10_000)])),
    Attack("zip-crc-shared", "zip", "20,000 members of 64 KB that share a wrong checksum",
           shared(20_000, lambda: bytes(65_536), b"wrong", STORED, size=65_536)),

    # Names, links, empty members.
    Attack("zip-names-65535", "zip", "60 names of 65,535 bytes", names(lambda i: f"{i:03}" + "n" * 65_532, 60)),
    Attack("zip-names-65535-deep", "zip", "60 names of 32,767 components", names(lambda i: f"{i:03}" + "/n" * 32_766, 60)),
    Attack("zip-names-31-components", "zip", "30,000 names of 31 components that share nothing",
           names(lambda i: f"{i}/" + "/".join("abcdefghijklmnopqrstuvwxyzABC") + "/f", 30_000)),
    Attack("zip-names-31-components-models", "zip", "20,000 models' names of 31 components",
           names(lambda i: f"{i}/" + "/".join("abcdefghijklmnopqrstuvwxyzABC") + "/f.gguf", 20_000, b"GGUF\3\0\0\0" + bytes(16))),
    Attack("zip-one-name", "zip", "60,000 members of one name: a warning and a search each", names(lambda i: "same", 60_000)),
    Attack("zip-names-clash", "zip", "names that are one after escaping",
           names(lambda i: ("a\x01", "a%01", "a%01~", "a%25~01")[i % 4] + f"~{i // 8}", 20_000)),
    Attack("zip-names-file-and-directory", "zip", "each name is a directory of the next: a, a/a, a/a/a",
           names(lambda i: "/".join("a" * (i + 1)), 3_000)),
    Attack("zip-names-dots", "zip", "names of dots and slashes", names(lambda i: "../" * (i % 500) + "./" * (i // 500) + "x",
                                                                       5_000)),
    Attack("zip-names-control", "zip", "names of control characters, 65,535 bytes", names(lambda i: f"{i:02}" + "\x01" * 65_000,
                                                                                          60)),
    Attack("zip-names-code-page", "zip", "names that are not UTF-8: three bytes for each",
           names(lambda i: b"%02d" % i + b"\xff" * 65_000, 60)),
    Attack("zip-comments", "zip", "60 members with extra fields and comments of 64 KB each", zipped(long_comments)),
    Attack("zip-links-chain", "zip", "a chain of 20,000 symbolic links", zipped(chain)),
    Attack(
        "zip-links-loop", "zip", "10,000 symbolic links to themselves and each other",
        zipped(lambda out: [out.link(f"l{i}", f"l{i ^ 1}") for i in range(10_000)] +
               [out.link("self", "self"), out.link("up", "../../..")])),
    Attack("zip-links-long", "zip", "1,500 symbolic links of 4,095 bytes through directories that are links",
           zipped(lambda out: [out.link(f"d{i}", "../" * 3 + f"d{i + 1}/" * 500) for i in range(1_500)])),
    Attack(
        "zip-empty-directories", "zip", "40,000 directories of 31 components without a file",
        zipped(
            lambda out:
            [out.entry(f"{i}/" + "/".join("abcdefghijklmnopqrstuvwxyzABCD") + "/", 0, 0, 0, mode=0o40755) for i in range(40_000)])),
    Attack("zip-empty-models", "zip", "60,000 empty members with a model's name", names(lambda i: f"{i}.safetensors", 60_000, b"")),
]
