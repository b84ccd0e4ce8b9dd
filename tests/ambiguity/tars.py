"""Tars whose members come twice, are links, or have two names."""
import struct

import arrays
from rows import Row, honest

BLOCK = 512


def header(name, size, kind=b"0", link=b"", prefix=b"", magic=b"ustar\0" + b"00", mode=b"0000644\0", size_field=None):
    field = size_field or b"%011o\0" % size
    begin = name.ljust(100, b"\0")[:100] + mode + b"0000000\0" * 2 + field + b"00000000000\0" + b" " * 8 + kind
    out = bytearray(begin + link.ljust(100, b"\0") + magic + bytes(64) + b"0000000\0" * 2 + prefix.ljust(155, b"\0"))
    out = out.ljust(BLOCK, b"\0")
    out[148:156] = b"%06o\0 " % sum(out)
    return bytes(out)


def member(name, data=b"", **fields):
    return header(name, len(data), **fields) + data + bytes(-len(data) % BLOCK)


def sized(name, data, field):
    return header(name, 0, size_field=field) + data + bytes(-len(data) % BLOCK)


def pax(*pairs, kind=b"x"):
    body = b""
    for key, value in pairs:
        line = b" " + key + b"=" + value + b"\n"
        size = len(line) + 1
        while len(b"%d" % size) + len(line) != size:
            size += 1
        body += b"%d" % size + line
    return member(b"pax", body, kind=kind)


END = bytes(2 * BLOCK)


def rows():
    name, alias = b"a.safetensors", b"b.safetensors"
    for seed in range(3):
        one, two, three = (arrays.safetensors(seed + i) for i in range(3))
        a, b = member(name, one), member(alias, two)
        again = member(name, three)
        yield honest("tar", a + b + END)
        for kind, parts in (
                ("names twice", (a, again, b)), ("names twice, last", (a, b, again)), ("names twice, reversed", (again, b, a)),
                ("a name three times", (a, again, a, b)),
                ("a link to a member that comes twice", (a, member(alias, kind=b"1", link=name), again)),
                ("a link before its member", (member(alias, kind=b"1", link=name), a)),
                ("a member that becomes a link", (a, b, member(name, kind=b"1", link=alias))),
                ("a member that becomes a symbolic link", (a, b, member(name, kind=b"2", link=alias))),
                ("a link that becomes a member", (b, member(name, kind=b"2", link=alias), a)),
                ("a hard link that becomes a member", (b, member(name, kind=b"1", link=alias), a)),
                ("a link with a size", (b, member(name, one, kind=b"1", link=alias))),
                ("a symbolic link with a size", (b, member(name, one, kind=b"2", link=alias), again)),
                ("a member below a link", (a, member(b"d", kind=b"2", link=b"."), member(b"d/" + name, two))),
                ("a member below a link, first", (member(b"d", kind=b"2", link=b"."), member(b"d/" + name, two), a)),
                ("a member below a link to a directory", (member(b"e/" + name, one), member(b"d", kind=b"2", link=b"e"),
                                                          member(b"d/" + name, two))),
                ("a directory like a member", (a, member(name + b"/", kind=b"5"), b)),
                ("a member like a directory", (member(name + b"/", kind=b"5"), a, b)),
                ("a directory with bytes", (member(b"d/", one, kind=b"5"), b)),
                ("a member with a slash", (member(b"c.safetensors/", one), b)),
                ("an old member with a slash", (member(b"c.safetensors/", one, kind=b"\0"), b)),
                ("an end inside", (a, END, b)), ("one block of zeros", (a, bytes(BLOCK), b)),
                ("a tar behind", (a, END, again, END)),
                ("names alike", (a, member(b"./" + name, two))), ("names alike, absolute", (a, member(b"/" + name, two))),
                ("names alike, first", (member(b"./" + name, two), a)),
                ("names alike, double slash", (member(b"d//a.safetensors", one), member(b"d/a.safetensors", two))),
                ("names in other letters", (a, member(name.upper(), two))),
                ("a pax path", (pax((b"path", alias)), a)), ("a pax path twice", (pax((b"path", b"x"), (b"path", alias)), a)),
                ("a pax path and a name", (a, pax((b"path", name)), b)),
                ("a pax size", (pax((b"size", b"%d" % len(one))), header(name, 0) + one + bytes(-len(one) % BLOCK), b)),
                ("a pax size that is less", (pax((b"size", b"%d" % (len(one) - 8))), a, b)),
                ("a global pax path", (pax((b"path", alias), kind=b"g"), a)),
                ("a global and another pax path", (pax((b"path", b"x"), kind=b"g"), pax((b"path", alias)), a)),
                ("a pax link", (b, pax((b"linkpath", alias)), member(name, kind=b"1", link=b"x"))),
                ("a GNU name", (member(b"././@LongLink", alias + b"\0", kind=b"L"), a)),
                ("a GNU name, then pax", (member(b"././@LongLink", b"x\0", kind=b"L"), pax((b"path", alias)), a)),
                ("pax, then a GNU name", (pax((b"path", alias)), member(b"././@LongLink", b"x\0", kind=b"L"), a)),
                ("a GNU name with bytes behind", (member(b"././@LongLink", alias + b"\0x", kind=b"L"), a)),
                ("a prefix", (member(name, one, prefix=b"d"), b)),
                ("a prefix of a GNU tar", (member(name, one, prefix=b"d", magic=b"ustar  \0"), b)),
                ("an old tar with a prefix", (member(name, one, prefix=b"d", magic=bytes(8)), b)),
                ("a size in base 256", (sized(name, one, b"\x80" + len(one).to_bytes(11, "big")), b)),
                ("a size with spaces", (sized(name, one, b"%11o " % len(one)), b)),
                ("a size that is not octal", (sized(name, one, (b"%o9" % len(one)).ljust(12, b"\0")), b)),
                ("a kind of the next standard", (member(name, one, kind=b"7"), b)),
                ("an unknown kind", (member(name, one, kind=b"Z"), b)), ("a kind of zero", (member(name, one, kind=b"\0"), b)),
                ("a name with a NUL", (member(name + b"\0x", one), b)), ("a name up", (a, member(b"../" + name, two))),
                ("a name up and down", (a, member(b"d/../" + name, two)))):
            yield Row("tar", kind, b"".join(parts) + END)
            yield Row("tar", f"{kind}, without end", b"".join(parts))
            yield Row("tar", f"{kind}, and bytes behind", b"".join(parts) + END + struct.pack("<Q", 7) * 64)
