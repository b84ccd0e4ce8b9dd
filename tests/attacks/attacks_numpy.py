"""NumPy: headers of .npy files, and what zips add to them in .npz files."""
import zlib

from attack import REFUSED, SHOWN, Attack, honest, one_file, pack, sparse
from attacks_zip import DEFLATE, STORED, shared, zipped
from limits import CPU_PER_READ_BYTE_S


def npy(header, data=b"", size=None):
    """Version 2.0, whose header may have 4 GiB; `size` is the stated one."""
    text = header.encode() if isinstance(header, str) else header
    return b"\x93NUMPY\2\0" + pack("I", len(text) if size is None else size) + text + data


def array(descr="'|u1'", shape="(1,)", fortran=False):
    return "{'descr': %s, 'fortran_order': %s, 'shape': %s}" % (descr, fortran, shape)


def file(make):
    return one_file("m.npy", make)


def deflated(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def members(count, make, method=STORED):
    """An .npz of `count` arrays with the same content."""
    def fill(out):
        data = make()
        packed = deflated(data) if method == DEFLATE else data
        for i in range(count):
            name = f"a{i}.npy"
            at = out.local(name.encode(), packed, method)
            out.entry(name, at, len(packed), len(data), method, zlib.crc32(data))
    return zipped(fill, "m.npz")


FIELDS = "[" + ",".join(f"('f{i}','<f8')" for i in range(50_000)) + "]"
EMPTY_FIELDS = "[" + ",".join(["('','|V1')"] * 90_000) + "]"
MANY_VALUES = "(" + "1," * 500_000 + ")"

ATTACKS = [
    Attack("npy-parentheses", "npy", "a header of 1,000,000 parentheses", file(lambda: npy("(" * 1_000_000)), REFUSED),
    Attack("npy-brackets", "npy", "a descr of 1,000,000 brackets", file(lambda: npy(array("[" * 1_000_000))), REFUSED),
    Attack("npy-dicts", "npy", "dicts nested 200,000 deep", file(lambda: npy("{'a':" * 200_000)), REFUSED),
    Attack("npy-structures-deep", "npy", "3,000 nested structures",
           file(lambda: npy(array("[('x'," * 3_000 + "'<f4'" + ")]" * 3_000))), REFUSED),
    Attack("npy-values", "npy", "a shape of 500,000 dimensions", file(lambda: npy(array(shape=MANY_VALUES))), REFUSED),
    Attack("npy-empty-lists", "npy", "a descr of 340,000 empty lists", file(lambda: npy(array("[" + "[]," * 340_000 + "]"))),
           REFUSED),
    Attack("npy-keys", "npy", "one key 100,000 times", file(lambda: npy("{" + "'descr':1," * 100_000 + "}")), REFUSED),
    Attack("npy-fields", "npy", "a structure of 50,000 fields", file(lambda: npy(array(FIELDS, "(0,)"))), SHOWN | REFUSED),
    Attack("npy-fields-nameless", "npy", "a structure of 90,000 fields without a name",
           file(lambda: npy(array(EMPTY_FIELDS, "(0,)"))), SHOWN | REFUSED),
    Attack("npy-text-of-escapes", "npy", "a name of 170,000 escapes",
           file(lambda: npy(array("[('" + "\\U0001F600" * 100_000 + "','<f4')]", "(0,)"))), SHOWN | REFUSED),
    Attack("npy-unclosed-text", "npy", "a text without an end", file(lambda: npy("{'" + "x" * 1_000_000)), REFUSED),
    Attack("npy-digits", "npy", "a dimension of 1,000,000 digits", file(lambda: npy(array(shape="(" + "9" * 1_000_000 + ",)"))),
           REFUSED),
    Attack("npy-header-claimed", "npy", "a header of 4 GiB", file(lambda: npy("{}", size=0xFFFFFFFF)), REFUSED),
    Attack("npy-header-hole", "npy", "a header of 1 MiB in a hole", sparse("m.npy", lambda: npy("", size=1 << 20), 1 << 40),
           REFUSED),
    Attack("npy-shape-2-64", "npy", "a shape whose size wraps to 0",
           file(lambda: npy(array("'<f8'", "(4294967296, 536870912, 4)"))), REFUSED),
    Attack("npy-hole-fortran", "npy", "a matrix of 1 MiB in Fortran order, in a hole",
           sparse("m.npy", lambda: npy(array(shape="(16, 65536)", fortran=True)), (1 << 20) + 4096), SHOWN),
    Attack("npy-elements-large", "npy", "four elements of 1 GiB in Fortran order, in a hole",
           sparse("m.npy", lambda: npy(array("'|V1073741824'", "(2, 2)", True)), (4 << 30) + 4096), SHOWN),
    Attack("npz-headers-deflated", "npz", "1,000 headers of 1 MiB, deflated",
           members(1_000, lambda: npy(array() + " " * ((1 << 20) - 100), b"x"), DEFLATE), SHOWN | REFUSED),
    Attack("npz-headers-nested", "npz", "100 headers of a structure of 50,000 fields, deflated",
           members(100, lambda: npy(array(FIELDS, "(0,)")), DEFLATE), SHOWN | REFUSED),
    Attack(
        "npz-one-header-shared", "npz", "50,000 members share one deflated header of 1 MiB",
        shared(50_000, lambda: deflated(npy(array() + " " * ((1 << 20) - 100), b"x")), npy(array() + " " * ((1 << 20) - 100), b"x"),
               DEFLATE, ".npy"), SHOWN | REFUSED),
    Attack("npz-bomb", "npz", "1 GiB of zeros in 1 MB: only the header is decoded",
           members(1, lambda: npy(array(shape=f"({1 << 30},)"), bytes(1 << 30)), DEFLATE), SHOWN,
           cpu=(1 << 30) * CPU_PER_READ_BYTE_S),
    honest("npz-20000", "npz", "20,000 arrays", members(20_000, lambda: npy(array() + "\n", b"x"))),
]
