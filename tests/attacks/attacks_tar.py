"""Tars, plain and compressed: chains of links and headers, sparse maps, streams that decode to nothing or to very much."""
import bz2
import gzip
import lzma
import random
import struct
import zlib

from attack import Attack, one_file, sparse
import archives
from attacks_tvm import params

END = bytes(1024)


def head(name=b"f", size=0, kind=b"0", link=b"", mode=b"0000644", raw_size=None, magic=b"ustar\x0000", tail=b""):
    """A header block. `raw_size`: the twelve bytes of the size field; `tail`: from byte 345 on."""
    size = b"%011o\0" % size if raw_size is None else raw_size
    block = (name.ljust(100, b"\0")[:100] + mode + b"\0" + b"0000000\0" * 2 + size + b"00000000000\0" + b" " * 8 + kind +
             link.ljust(100, b"\0")[:100] + magic).ljust(345, b"\0") + tail
    block = block.ljust(512, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def padded(data):
    return data + bytes(-len(data) % 512)


def member(name, data=b"", kind=b"0", link=b""):
    return head(name, len(data), kind, link) + padded(data)


def gnu_long(name, kind=b"L"):
    return head(b"././@LongLink", len(name) + 1, kind, magic=b"ustar  \0") + padded(name + b"\0")


def record(key, value):
    """A PAX record, which begins with its own length."""
    body = b" " + key + b"=" + value + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def pax(records, kind=b"x"):
    return member(b"PaxHeaders/f", b"".join(record(key, value) for key, value in records), kind)


def tar(make, name="m.tar"):
    """A builder: the blocks that `make()` returns, and the end."""
    return one_file(name, lambda: [*make(), END])


def old_sparse(entries, real, chained):
    """GNU's old sparse member: 4 pieces in the header, 21 in each block after it."""
    def number(n):
        return b"%011o\0" % n if n < 8 ** 11 else b"\x80" + n.to_bytes(11, "big")
    pieces = [number(at) + number(size) for at, size in entries]
    block = head(b"sparse", 0, b"S", magic=b"ustar  \0",
                 tail=bytes(41) + b"".join(pieces[:4]).ljust(96, b"\0") + bytes([chained]) + number(real))
    blocks = [block]
    for at in range(4, len(pieces), 21):
        more = at + 21 < len(pieces) or chained > 1
        blocks.append((b"".join(pieces[at:at + 21]).ljust(504, b"\0") + bytes([more])).ljust(512, b"\0"))
    return b"".join(blocks)


def gzip_of(begin, block, times):
    """A gzip stream of `begin` and `times` times `block`, which is compressed once; its checksum is wrong."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    repeated = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + repeated * times + b"\3\0" + bytes(8)


def streams_of(compress, begin, part, times):
    """Concatenated streams: one of `begin`, and `times` the same of `part` zeros."""
    return compress(begin) + compress(bytes(part)) * times


def in_gzip(data, level=9):
    return gzip.compress(data, level, mtime=0)


def gzip_of_gzip(depth):
    data = member(b"f", b"x") + END
    for _ in range(depth):
        data = in_gzip(data)
    return data


def tar_in_tar(depth, pack=bytes, suffix=b".tar"):
    data = member(b"f", b"x") + END
    for level in range(depth):
        data = pack(member(b"%d" % level + suffix, data) + END)
    return data


def model_of(count):
    """A .params of `count` tensors."""
    return params([(b"t%d" % i, (), b"1") for i in range(count)])


def mlf(members):
    return [member(b"metadata.json", b'{"version": 7, "modules": {"m": {"style": "full-model"}}}'), *members]


HARD = b"1"
SYMBOLIC = b"2"


def unequal(pack, count):
    """A member of `count` MB of two letters in no order, one rare, which decoders of zeros are not used to; packed by the MB."""
    generator = random.Random(1)
    letters = pack(bytes(generator.choices(b"ab", [97, 3], k=1_000_000)))
    return pack(head(b"f", count * 1_000_000)) + letters * count


ATTACKS = [
    # Links.
    Attack("tar-hard-links-backward", "tar", "a chain of 20,000 hard links, each to the one before",
           tar(lambda: [member(b"l0", b"x"), *(member(b"l%d" % i, kind=HARD, link=b"l%d" % (i - 1)) for i in range(1, 20_000))])),
    Attack("tar-hard-links-forward", "tar", "a chain of 20,000 hard links, each to the next one",
           tar(lambda: [*(member(b"l%d" % i, kind=HARD, link=b"l%d" % (i + 1)) for i in range(20_000)),
                        member(b"l20000", b"x")])),
    Attack(
        "tar-hard-links-loop", "tar", "10,000 hard links to themselves and each other",
        tar(lambda: [member(b"l%d" % i, kind=HARD, link=b"l%d" % (i ^ 1))
                     for i in range(10_000)] + [member(b"s", kind=HARD, link=b"s")])),
    Attack(
        "tar-hard-links-one-params", "tvm-mlf", "100 hard links to one .params of 20,000 tensors",
        tar(lambda: mlf([
            member(b"parameters/0.params", model_of(20_000)), *(
                member(b"parameters/%d.params" % i, kind=HARD, link=b"parameters/0.params") for i in range(1, 100))
        ]))),
    Attack(
        "tar-hard-links-models", "tar", "5,000 hard links to one .params of 5,000 tensors",
        tar(lambda: [
            member(b"0.params", model_of(5_000)), *(member(b"%d.params" % i, kind=HARD, link=b"0.params") for i in range(1, 5_000))
        ])),
    Attack("tar-symbolic-links-chain", "tar", "a chain of 20,000 symbolic links",
           tar(lambda: [member(b"l%d" % i, kind=SYMBOLIC, link=b"l%d" % (i + 1)) for i in range(20_000)])),
    Attack(
        "tar-symbolic-links-directories", "tar", "symbolic links to directories that double at each level: 2^40 paths",
        tar(lambda: [
            block for i in range(40) for block in (member(b"d%d/a" % i, kind=SYMBOLIC, link=b"../d%d" %
                                                          (i + 1)), member(b"d%d/b" % i, kind=SYMBOLIC, link=b"../d%d" % (i + 1)))
        ])),
    Attack(
        "tar-symbolic-links-out", "tar", "symbolic links out, by names with 30 directories",
        tar(lambda: [member(b"d/" * 30 + b"%d" % i, kind=SYMBOLIC, link=b"../" * (i % 33) + b"etc/passwd") for i in range(5_000)])),

    # Headers.
    Attack(
        "tar-pax-records", "tar", "30 members with 50 KB of PAX records each",
        tar(lambda: [block for i in range(30) for block in (pax([(b"k%d" % j, b"v") for j in range(5_000)]), member(b"%d" % i))])),
    Attack("tar-pax-huge-value", "tar", "a PAX record of 20 MB",
           tar(lambda: [pax([(b"comment", b"x" * 20_000_000)]), member(b"f")])),
    Attack(
        "tar-pax-length-lies", "tar", "PAX records whose lengths are wrong, huge or negative",
        tar(lambda: [
            member(b"p", length + b" path=x\n", b"x") + member(b"f") for length in (b"0", b"-1", b"99999999999999999999", b"3", b"")
        ])),
    Attack("tar-pax-global-headers", "tar", "8,000 global headers",
           tar(lambda: [pax([(b"comment", b"x")], b"g")] * 8_000 + [member(b"f")])),
    Attack("tar-pax-chain", "tar", "8,000 PAX headers in front of one member",
           tar(lambda: [pax([(b"path", b"x")])] * 8_000 + [member(b"f")])),
    Attack(
        "tar-pax-access-lists", "tar", "an access control list of 70 KB at each of 100 members",
        tar(lambda: [
            block for i in range(100)
            for block in (pax([(b"SCHILY.acl.access", b",".join(b"user:%d:rwx" % j for j in range(5_000)))]), member(b"%d" % i))
        ])),
    Attack(
        "tar-pax-attributes", "tar", "2,000 extended attributes at each of 40 members",
        tar(lambda: [
            block for i in range(40)
            for block in (pax([(b"SCHILY.xattr.user.%d" % j, b"v") for j in range(2_000)]), member(b"%d" % i))
        ])),
    Attack("tar-gnu-long-names", "tar", "100 names of 65,535 bytes",
           tar(lambda: [gnu_long(b"%03d" % i + b"n" * 65_532) + member(b"f") for i in range(100)])),
    Attack("tar-gnu-long-deep", "tar", "100 names of 32,767 components",
           tar(lambda: [gnu_long(b"%03d" % i + b"/n" * 32_766) + member(b"f") for i in range(100)])),
    Attack("tar-gnu-long-chain", "tar", "8,000 long names in front of one member",
           tar(lambda: [gnu_long(b"x" * 200)] * 8_000 + [member(b"f")])),
    Attack("tar-gnu-long-links", "tar", "long names and long links in turns, 8,000",
           tar(lambda: [gnu_long(b"x"), gnu_long(b"y", b"K")] * 4_000 + [member(b"f")])),
    Attack("tar-gnu-long-claims", "tar", "a long name of 2^62 bytes",
           tar(lambda: [head(b"L", kind=b"L", raw_size=b"\x80" + (1 << 62).to_bytes(11, "big"))])),
    Attack(
        "tar-size-negative", "tar", "sizes that are negative, and beyond 64 bits",
        tar(lambda: [
            head(b"%d" % i, raw_size=size)
            for i, size in enumerate((b"\xff" * 12, b"\x80" + b"\xff" * 11, b"77777777777\0", b"99999999999\0"))
        ])),
    Attack("tar-names-31-components", "tar", "20,000 names of 31 components",
           tar(lambda: [member(b"%d/" % i + b"/".join(b"%c" % (97 + j % 26) for j in range(29)) + b"/f") for i in range(20_000)])),
    Attack("tar-directories", "tar", "20,000 directories of 31 components without a file",
           tar(lambda: [member(b"%d/" % i + b"a/" * 30, kind=b"5") for i in range(20_000)])),
    Attack("tar-one-name", "tar", "10,000 members of one name", tar(lambda: [member(b"same", b"x")] * 10_000)),
    Attack("tar-devices", "tar", "20,000 devices, FIFOs and unknown types: a warning each",
           tar(lambda: [member(b"%d" % i, kind=b"%c" % (51 + i % 40)) for i in range(20_000)])),
    Attack("tar-names-file-and-directory", "tar", "each name is a directory of the next",
           tar(lambda: [member(b"/".join([b"a"] * (1 + i % 50)), b"x") for i in range(5_000)])),

    # Sparse members and holes.
    Attack("tar-sparse-8-eib", "tar", "a sparse member of 8 EiB", tar(lambda: [old_sparse([((1 << 62), 0)], (1 << 63) - 1, 0)])),
    Attack("tar-sparse-map-chain", "tar", "a sparse member with a map of 200,000 pieces",
           tar(lambda: [old_sparse([(i * 2, 1) for i in range(200_000)], 400_000, 1),
                        bytes(512 * 400)])),
    Attack("tar-sparse-map-endless", "tar", "a sparse map that extends to the end of the file",
           tar(lambda: [old_sparse([(0, 0)] * 100_000, 1 << 40, 2)])),
    Attack(
        "tar-sparse-map-claims", "tar", "a PAX sparse map of 2^60 pieces",
        tar(lambda: [
            pax([(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"s"),
                 (b"GNU.sparse.realsize", b"1099511627776")]),
            member(b"f", b"1152921504606846976\n0\n1\n" * 20)
        ])),
    Attack("tar-sparse-members", "tar", "2,000 sparse members of 1 TB",
           tar(lambda: [old_sparse([(i, 0)], 1 << 40, 0) for i in range(2_000)])),
    Attack("tar-hole-of-zeros", "tar", "1 TB of zeros behind one member", sparse("m.tar", lambda: member(b"f", b"x"), 1 << 40)),
    Attack("tar-hole-member", "tar", "a member of 1 TB in a hole",
           sparse("m.tar", lambda: head(b"f", 1 << 32) + b"", (1 << 32) + 2048)),
    Attack("tar-all-hole", "tar", "1 TB of zeros called .tar", sparse("m.tar", lambda: b"", 1 << 40)),

    # Compression.
    Attack("tar-gz-empty-members", "tar.gz", "100,000 empty gzip members, then a tar",
           one_file("m.tar.gz", lambda: [in_gzip(b"")] * 100_000 + [in_gzip(member(b"f", b"x") + END)])),
    Attack("tar-gz-empty-blocks", "tar.gz", "8 MB of Deflate blocks without bytes",
           one_file("m.tar.gz", lambda: b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * 1_600_000)),
    Attack(
        "tar-gz-empty-fixed-blocks", "tar.gz", "4 MB of fixed Deflate blocks of 10 bits",
        one_file("m.tar.gz", lambda: b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + sum(1 << (10 * i + 1)
                                                                           for i in range(4)).to_bytes(5, "little") * 800_000)),
    Attack("tar-gz-endless-name", "tar.gz", "a gzip header whose name has 8 MB",
           one_file("m.tar.gz", lambda: b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"n" * 8_000_000)),
    Attack("tar-gz-1-gib", "tar.gz", "a member of 1 GiB of zeros in 1 MB",
           one_file("m.tar.gz", lambda: gzip_of(head(b"f", 1 << 30), bytes(1 << 24), 64))),
    Attack("tar-bz2-1-gib", "tar.bz2", "a member of 1 GiB of zeros in 1 KB",
           one_file("m.tar.bz2", lambda: streams_of(bz2.compress, head(b"f", 1 << 30), 1 << 24, 64))),
    Attack("tar-bz2-unequal", "tar.bz2", "a member of 400 MB of two letters in 11 MB",
           one_file("m.tar.bz2", lambda: unequal(bz2.compress, 400))),
    Attack("tar-xz-unequal", "tar.xz", "a member of 400 MB of two letters",
           one_file("m.tar.xz", lambda: unequal(lambda data: lzma.compress(data, preset=1), 400))),
    Attack("tar-gz-unequal", "tar.gz", "a member of 400 MB of two letters", one_file("m.tar.gz", lambda: unequal(in_gzip, 400))),
    Attack("tar-bz2-empty-streams", "tar.bz2", "300,000 empty bzip2 streams",
           one_file("m.tar.bz2", lambda: bz2.compress(b"") * 300_000)),
    Attack("tar-xz-1-gib", "tar.xz", "a member of 1 GiB of zeros in 150 KB",
           one_file("m.tar.xz", lambda: streams_of(lambda data: lzma.compress(data, preset=0), head(b"f", 1 << 30), 1 << 24, 64))),
    Attack("tar-xz-empty-streams", "tar.xz", "100,000 empty xz streams", one_file("m.tar.xz",
                                                                                  lambda: lzma.compress(b"") * 100_000)),
    Attack("tar-xz-padding", "tar.xz", "8 MB of padding between xz streams",
           one_file("m.tar.xz", lambda: lzma.compress(member(b"f", b"x")) + bytes(8_000_000) + lzma.compress(END))),
    Attack(
        "tar-xz-dictionary", "tar.xz", "a dictionary of 4 GB claimed",
        one_file(
            "m.tar.xz", lambda: lzma.compress(
                member(b"f", b"x") + END, lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 12}]).replace(
                    b"\x21\x01\x00", b"\x21\x01\x28"))),
    Attack("tar-zst-skippable-frames", "tar.zst", "8 MB of skippable frames",
           one_file("m.tar.zst", lambda: struct.pack("<II", 0x184D2A50, 0) * 1_000_000 + archives.zstd(member(b"f", b"x") + END))),
    Attack(
        "tar-zst-empty-frames", "tar.zst", "600,000 empty frames",
        one_file("m.tar.zst", lambda:
                 (struct.pack("<IBB", 0xFD2FB528, 0x20, 0) + b"\1\0\0") * 600_000 + archives.zstd(member(b"f", b"x") + END))),
    Attack("tar-zst-4-gib", "tar.zst", "a member of 4 GiB of zeros in 128 KB",
           one_file("m.tar.zst", lambda: archives.zstd(head(b"f", 1 << 32)) + archives.zstd(bytes(1 << 24)) * 256)),
    Attack("tar-gz-headers", "tar.gz", "a million headers of empty members in a few KB",
           one_file("m.tar.gz", lambda: gzip_of(member(b"f"),
                                                member(b"f") * 8_192, 128))),
    Attack("tar-gz-of-gz", "tar.gz", "gzip in gzip, 200 deep", one_file("m.tar.gz", lambda: gzip_of_gzip(200))),
    Attack("tar-in-tar", "tar", "tars in tars, 100 deep", one_file("m.tar", lambda: tar_in_tar(100))),
    Attack("tar-gz-in-tar-gz", "tar.gz", "compressed tars in compressed tars, 50 deep",
           one_file("m.tar.gz", lambda: tar_in_tar(50, in_gzip, b".tar.gz"))),
    Attack(
        "tar-gz-shared-in-tar", "tar", "2,000 hard links to one compressed tar of 64 MB of zeros",
        tar(lambda: [
            member(b"0.tar.gz", gzip_of(head(b"f", 1 << 26), bytes(1 << 22), 16)), *(
                member(b"%d.tar.gz" % i, kind=HARD, link=b"0.tar.gz") for i in range(1, 2_000))
        ])),
]
