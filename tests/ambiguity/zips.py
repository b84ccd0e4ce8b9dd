"""Zips, .npz files and checkpoints of torch whose readers may differ: names twice, two directories, headers that contradict."""
import itertools
import struct
import zlib
from typing import NamedTuple

import arrays
from rows import Row, honest

STORED, DEFLATE = 0, 8
UNIX_FILE, UNIX_LINK = 0o100644 << 16, 0o120777 << 16
ENCRYPTED, DESCRIPTOR, UTF8 = 1, 8, 1 << 11


def deflated(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


class Member(NamedTuple):
    """A member; `local` and `central` override fields of one of its two headers."""
    name: bytes
    data: bytes
    method: int = STORED
    local: dict = {}
    central: dict = {}
    packed: bytes = None  # the stored bytes, if not made from the data
    behind: bytes = b""   # bytes after them

    def fields(self, overrides, at):
        packed = self.packed if self.packed is not None else deflated(self.data) if self.method == DEFLATE else self.data
        given = dict(name=self.name, flags=0, method=self.method, crc=zlib.crc32(self.data), stored=len(packed),
                     size=len(self.data), extra=b"", comment=b"", attributes=UNIX_FILE, at=at)
        return {**given, **overrides}, packed


def local_header(f):
    return b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, f["flags"], f["method"], 0, 0x21, f["crc"], f["stored"], f["size"],
                                   len(f["name"]), len(f["extra"])) + f["name"] + f["extra"]


def record(f):
    return b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 0x031E, 20, f["flags"], f["method"], 0, 0x21, f["crc"], f["stored"],
                                   f["size"], len(f["name"]), len(f["extra"]), len(f["comment"]), 0, 0, f["attributes"],
                                   f["at"]) + f["name"] + f["extra"] + f["comment"]


def end_record(count, size, offset, comment=b"", disks=(0, 0), here=None, length=None):
    return b"PK\5\6" + struct.pack("<HHHHIIH", *disks, count if here is None else here, count, size, offset,
                                   len(comment) if length is None else length) + comment


def end_64(members, size, offset, at):
    """The zip64 end record at `at`, and its locator."""
    return (b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, members, members, size, offset) + b"PK\6\7" +
            struct.pack("<IQI", 0, at, 1))


def zipped(members, before=b"", order=None, gap=b"", tail=b"", with_64=False, **end):
    """A zip of these members; `order` of the directory, `gap` before it, `tail` behind the end. `end` overrides the end record."""
    out, records = before, []
    for member in members:
        local, packed = member.fields(member.local, len(out))
        central, _ = member.fields(member.central, len(out))
        out += local_header(local) + packed + member.behind
        records.append(record(central))
    out += gap
    directory = b"".join(records[i] for i in order or range(len(records)))
    given = dict(count=len(order or records), size=len(directory), offset=len(out))
    out += directory
    if with_64:
        out += end_64(given["count"], given["size"], given["offset"], len(out))
    return out + end_record(**{**given, **end}) + tail


def unicode_path(name, of, version=1):
    """The extra field of Info-ZIP with a name in UTF-8, for a header with the name `of`."""
    body = struct.pack("<BI", version, zlib.crc32(of)) + name
    return struct.pack("<HH", 0x7075, len(body)) + body


def zip64_extra(*values):
    return struct.pack("<HH", 1, 8 * len(values)) + struct.pack(f"<{len(values)}Q", *values)


def names_twice(name, one, two, other):
    """Several members of one name, in every order, stored and compressed."""
    for methods in itertools.product((STORED, DEFLATE), repeat=2):
        a, b = Member(name, one, methods[0]), Member(name, two, methods[1])
        for at in range(3):
            yield "names twice", zipped([a, b][:at] + [*other] + [a, b][at:])
        yield "names twice, directory reversed", zipped([a, b, *other], order=[*range(1 + len(other), -1, -1)])
        yield "a record twice", zipped([a, b, *other], order=[0, 1, 0, *range(2, 2 + len(other))])
        yield "a name three times", zipped([a, b, *other, a])
    yield "a name with a NUL", zipped([Member(name, one), Member(name + b"\0x", two), *other])
    yield "a name with a NUL first", zipped([Member(name + b"\0x", two), Member(name, one), *other])


def names_alike(name, one, two, other):
    """Names that are one path, or one name in other letters."""
    alike = (b"./" + name, b"/" + name, b"//" + name, b"x/../" + name, b"../" + name, name.upper(), b"./" + name.upper(),
             name[:2] + name[2:].upper(), name[:-1] + name[-1:].upper(), name.replace(b"/", b"//"), name.replace(b"/", b"/./"),
             name.replace(b"/", b"\\"), name + b" ", name + b".")
    for like in alike:
        if like == name:
            continue
        for first in (True, False):
            pair = [Member(name, one), Member(like, two)]
            yield f"names alike: {like}", zipped((pair if first else pair[::-1]) + [*other])
            yield f"names alike in front: {like}", zipped([*other] + (pair if first else pair[::-1]))
        yield f"an odd name alone: {like}", zipped([Member(like, two), *other])
    composed, apart = "é".encode(), "e\u0301".encode()
    for flags in (0, UTF8):
        fields = dict(flags=flags)
        pair = [Member(name[:1] + part + name[1:], data, local=fields, central=fields) for part,
                data in ((composed, one), (apart, two))]
        yield "names equal in Unicode", zipped(pair + [*other])
        yield "names equal in Unicode, reversed", zipped(pair[::-1] + [*other])


def directories(name, one, two, other):
    """A directory entry with bytes, or with the name of a member."""
    for data, method in itertools.product((two, b""), (STORED, DEFLATE)):
        directory = Member(name + b"/", data, method)
        yield "a directory with bytes", zipped([directory, *other])
        yield "a directory like a member", zipped([Member(name, one), directory, *other])
        yield "a directory like a member, first", zipped([directory, Member(name, one), *other])
        yield "a member below a member", zipped([Member(name, one), Member(name + b"/" + name, two), *other])


def contradictions(name, one, two, other):
    """Fields of the local header that are not those of the directory, and odd extra fields."""
    n = len(one)
    locals_ = (dict(name=name[:-1] + b"_"), dict(name=name + b"x"), dict(name=b""), dict(size=n - 1), dict(stored=n - 1),
               dict(stored=0, size=0),
               dict(crc=1), dict(method=DEFLATE), dict(method=99), dict(flags=ENCRYPTED),
               dict(flags=DESCRIPTOR, stored=0, size=0, crc=0),
               dict(extra=b"FB\4\0ZZZZ"), dict(extra=b"FB\xff\0Z"), dict(extra=zip64_extra(n, n)),
               dict(size=0xFFFFFFFF, stored=0xFFFFFFFF, extra=zip64_extra(n, n)),
               dict(extra=unicode_path(b"other.npy", name)))
    centrals = (dict(flags=ENCRYPTED), dict(flags=UTF8), dict(extra=zip64_extra(n, n)), dict(extra=zip64_extra(n - 1, n - 1)),
                dict(size=0xFFFFFFFF, extra=zip64_extra(n)), dict(size=0xFFFFFFFF, stored=0xFFFFFFFF, extra=zip64_extra(n, n)),
                dict(size=0xFFFFFFFF, stored=0xFFFFFFFF, extra=zip64_extra(n)), dict(extra=zip64_extra(n, n, 0)),
                dict(at=0xFFFFFFFF, extra=zip64_extra(0)),
                dict(size=0xFFFFFFFF, extra=zip64_extra(n - 8)), dict(extra=zip64_extra(5) + zip64_extra(n)),
                dict(size=0xFFFFFFFF, extra=zip64_extra(n) + zip64_extra(n - 8)),
                dict(crc=1), dict(size=n - 1, stored=n - 1), dict(size=n + 1, stored=n + 1), dict(size=n - 1), dict(stored=n - 1),
                dict(method=DEFLATE), dict(method=99),
                dict(attributes=UNIX_LINK), dict(attributes=0x10), dict(attributes=0o040755 << 16), dict(comment=b"PK\5\6"),
                dict(extra=b"xx\xff\xff"))
    for fields, method in itertools.product(locals_, (STORED, DEFLATE)):
        yield f"local header: {sorted(fields)}", zipped([Member(name, one, method, local=fields), *other])
        yield f"local header, second: {sorted(fields)}", zipped([*other, Member(name, one, method, local=fields)])
    for fields, method in itertools.product(centrals, (STORED, DEFLATE)):
        yield f"directory: {sorted(fields)}", zipped([Member(name, one, method, central=fields), *other])
    alias = name[:-5] + b"2" + name[-4:]
    for of, version in ((name, 1), (name, 2), (alias, 1)):
        for like in (alias, name, other[0].name, b"../" + name):
            extra = dict(extra=unicode_path(like, of, version))
            yield f"Unicode path {like}", zipped([Member(name, one, central=extra), *other])
            yield f"Unicode path {like}, both", zipped([Member(name, one, local=extra, central=extra), *other])
            yield f"Unicode path {like}, last", zipped([*other, Member(name, one, central=extra)])
            yield f"Unicode path {like}, of two", zipped([Member(name, one, central=extra), Member(alias, two), *other])
            yield f"Unicode path {like}, of two, last", zipped([Member(alias, two), *other, Member(name, one, central=extra)])


def streams(name, one, two, other):
    """Compressed bytes with more behind them, or of another length."""
    packed = deflated(one)
    for bytes_ in (packed + b"x", packed + deflated(two), packed[:-1], packed[:len(packed) // 2], deflated(one + two),
                   deflated(one[:-1])):
        yield "a stream of another length", zipped([Member(name, one, DEFLATE, packed=bytes_), *other])
        yield "a stream of another length, last", zipped([*other, Member(name, one, DEFLATE, packed=bytes_)])
    yield "bytes behind a member", zipped([Member(name, one, behind=two), *other])
    yield "bytes behind a compressed member", zipped([Member(name, one, DEFLATE, behind=two), *other])


def overlaps(name, one, two, other):
    """Members whose bytes are those of others."""
    alias = b"z" + name if b"/" not in name else name.replace(b"/", b"/z", 1)
    for method in (STORED, DEFLATE):
        at = dict(at=0)
        yield "members that are one", zipped([Member(name, one, method), Member(alias, one, method, central=at), *other])
        yield "a member in another", zipped([Member(name, one + local_header(Member(b"in", two).fields({}, 0)[0]) + two), *other])
        yield "a record at the bytes of another", zipped([Member(name, one, method), Member(alias, two, method, central=at),
                                                          *other])
        inner = local_header(Member(alias, two).fields({}, 0)[0]) + two
        head = 30 + len(name)
        whole = one + inner
        yield "a member inside another", zipped([Member(name, whole), Member(alias, two, central=dict(at=head + len(one))), *other])


def ends(name, one, two, other):
    """Two ends, counts and sizes that contradict, bytes around the zip."""
    first, second = zipped([Member(name, one), *other]), zipped([Member(name, two), *other])
    members = [Member(name, one), *other]
    yield "two zips", first + second
    yield "two zips, shifted", first + zipped([Member(name, two), *other], before=first)[len(first):]
    yield "a zip in the comment", zipped(members, comment=second)
    yield "an end in the comment", zipped(members, comment=end_record(0, 0, 0))
    yield "a zip behind the end", zipped(members, tail=second)
    for tail in (b"x", b"\n", b"\0" * 22, b"PK\5\6", b"PK\5\6" + b"\0" * 17, b"x" * 100, end_record(0, 0, 0)):
        yield "bytes behind the end", zipped(members, tail=tail)
    for before in (b"x", b"#!/bin/sh\nexit\n", first, b"PK\3\4", b"\x93NUMPY\1\0"):
        yield "bytes in front", zipped(members, before=before)
        yield "bytes in front, offsets of the zip", before + first
    for count in (0, 1, 3, 65535):
        yield "a count of members", zipped(members, count=count)
        yield "a count on this disk", zipped(members, here=count)
    size = sum(len(record(m.fields({}, 0)[0])) for m in members)
    for size_ in (0, size - 1, size + 1, size // 2, 46 + len(name)):
        yield "a size of the directory", zipped(members, size=size_)
        yield "a size of the directory, zip64", zipped(members, size=size_, with_64=True)
    at = len(first) - size - 22
    for offset in (0, at - 1, at + 1, 30):
        yield "an offset of the directory", zipped(members, offset=offset)
    yield "a second directory", zipped(members, gap=record(Member(name, two).fields({}, 0)[0]))
    yield "a gap behind the directory", zipped(members, size=46 + len(name), count=1)
    for disks in ((1, 0), (0, 1), (1, 1)):
        yield "disks", zipped(members, disks=disks)
    for length in (1, 22, 65535):
        yield "a length of the comment", zipped(members, length=length)
        yield "a length of the comment that fits", zipped(members, length=length, tail=b"c" * min(length, 30))
    yield "zip64 of a small zip", zipped(members, with_64=True)
    yield "zip64 alone", zipped(members, with_64=True, count=65535, size=0xFFFFFFFF, offset=0xFFFFFFFF)


GROUPS = (names_twice, names_alike, directories, contradictions, streams, overlaps, ends)


def rows_of(suffix, name, one, two, other):
    for method in (STORED, DEFLATE):
        yield honest(suffix, zipped([Member(name, one, method), *other]))
    for group in GROUPS:
        for kind, data in group(name, one, two, other):
            yield Row(suffix, kind, data)


def plain():
    """Zips of files, one of which is a model."""
    one, two = arrays.safetensors(1), arrays.safetensors(2)
    yield from rows_of("zip", b"a.safetensors", one, two, [Member(b"readme.txt", b"about")])
    yield from rows_of("zip", b"d/a.safetensors", one, two, [Member(b"d/b.safetensors", arrays.safetensors(3))])


def npz():
    one, two = arrays.npy(1), arrays.npy(2)
    yield from rows_of("npz", b"a.npy", one, two, [Member(b"b.npy", arrays.npy(3))])
    yield from rows_of("npz", b"d/a.npy", one, two, [Member(b"b", arrays.npy(3), DEFLATE)])
    for inside in arrays.npy_variants():
        for method in (STORED, DEFLATE):
            yield Row("npz", f"a member: {inside.kind}", zipped([Member(b"a.npy", inside.data, method), Member(b"b.npy", one)]))


def torch():
    one, two = arrays.torch_pickle(1), arrays.torch_pickle(2)
    storage, version = Member(b"m/data/0", arrays.numbers(7)), Member(b"m/version", b"3\n")
    storages = [storage, Member(b"m/data/1", arrays.numbers(8)), version]
    yield honest("pt", zipped([Member(b"m/data.pkl", one), *storages]))
    for group in GROUPS:
        for kind, data in group(b"m/data/0", arrays.numbers(7), arrays.numbers(9), [Member(b"m/data.pkl", one), version]):
            yield Row("pt", f"storage: {kind}", data)
        for kind, data in group(b"m/data.pkl", one, two, [storage, version]):
            yield Row("pt", f"object: {kind}", data)
    yield from torch_roots(one, two, storage, version)


def torch_roots(one, two, storage, version):
    """Several directories with an object."""
    def of(root):
        return [Member(root + b"/data.pkl", two), Member(root + b"/data/0", arrays.numbers(9)), Member(root + b"/version", b"3\n")]
    mine = [Member(b"m/data.pkl", one), storage, version]
    for root in (b"n", b"M", b"m/m", b"a", b"n/n", b".", b"m/data"):
        yield Row("pt", f"two roots: {root}", zipped(mine + of(root)))
        yield Row("pt", f"two roots, second first: {root}", zipped(of(root) + mine))
        yield Row("pt", f"a file of another root first: {root}", zipped(of(root)[2:] + mine))
        yield Row("pt", f"a file of another root first, both: {root}", zipped(of(root)[2:] + mine + of(root)[:2]))
    for name in (b"version", b"m", b"m/", b"x/", b"", b"/m/version", b"m//version", b"./m/version"):
        yield Row("pt", f"a first member {name}", zipped([Member(name, b""), *mine]))
        yield Row("pt", f"a last member {name}", zipped([*mine, Member(name, b"")]))
