"""PyTorch: pickles in zips and in the form before torch 1.6."""
import io
import struct
import zipfile

from attack import REFUSED, SHOWN, Attack, honest, one_file  # puts tests/support on the path
import pickles

FLOATS = pickles.storage("Float", "0", 16)
ONE = pickles.tensor(FLOATS, (1,))
DATA = bytes(64)


def checkpoint(make, method=zipfile.ZIP_STORED):
    """A zip of the pickle that `make()` returns the opcodes of."""
    def build():
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, data in (("archive/data.pkl", pickles.pickle(make())), ("archive/data/0", DATA)):
                archive.writestr(zipfile.ZipInfo(name), data, method)
        return out.getvalue()
    return one_file("m.pt", build)


def legacy(make, storages=lambda: [("0", 16, DATA)]):
    return one_file("m.pt", lambda: pickles.legacy(make(), storages()))


def shared(leaf, levels):
    """2^levels names of one value."""
    return leaf + b"2\x86" * levels


def nested(depth, begin=b"]", end=b"a"):
    return begin * depth + end * (depth - 1)


def dictionary(count, item=ONE):
    """A dict of one value under many keys."""
    return b"}(" + b"".join(pickles.text(f"k{i}") + item for i in range(count)) + b"u"


def memoized(count):
    """Pickles a value from the memo: few bytes for each tensor."""
    keys = b"".join(b"\x8c\x04" + f"{i:04x}".encode() + b"h\0" for i in range(count))
    return ONE + b"q\0" + b"0}(" + keys + b"u"


ATTACKS = [
    honest("pytorch-20000", "pytorch", "20,000 tensors", checkpoint(lambda: dictionary(20_000))),
    Attack("pytorch-shared-tensor", "pytorch", "2^40 names of a tensor", checkpoint(lambda: shared(ONE, 40)), REFUSED),
    Attack("pytorch-shared-list", "pytorch", "2^80 names of an empty list", checkpoint(lambda: shared(b"]", 80)), REFUSED),
    Attack("pytorch-shared-legacy", "pytorch-legacy", "2^40 names of a tensor", legacy(lambda: shared(ONE, 40)), REFUSED),
    Attack("pytorch-memo-tensor", "pytorch", "60,000 keys of one tensor in the memo", checkpoint(lambda: memoized(60_000))),
    Attack("pytorch-nested-lists", "pytorch", "5,000,000 nested lists", checkpoint(lambda: nested(5_000_000)), REFUSED),
    Attack("pytorch-nested-deflated", "pytorch", "40 MB of nested lists in 40 kB",
           checkpoint(lambda: nested(20_000_000), zipfile.ZIP_DEFLATED), REFUSED),
    Attack("pytorch-nested-tuples", "pytorch", "1,000,000 nested tuples", checkpoint(lambda: b")" + b"\x85" * 1_000_000), REFUSED),
    Attack("pytorch-nested-calls", "pytorch", "300,000 nested calls",
           checkpoint(lambda: b"cbuiltins\nlist\n" * 300_000 + b")" + b"\x85R" * 300_000), REFUSED),
    Attack("pytorch-marks", "pytorch", "10,000,000 marks", checkpoint(lambda: b"(" * 10_000_000), REFUSED),
    Attack("pytorch-duplicates", "pytorch", "10,000,000 copies of a value on the stack",
           checkpoint(lambda: b"N" + b"2" * 10_000_000 + b"1")),
    Attack("pytorch-none", "pytorch", "10,000,000 values on the stack", checkpoint(lambda: b"N" * 10_000_000)),
    Attack("pytorch-none-deflated", "pytorch", "60,000,000 values in 60 kB",
           checkpoint(lambda: b"N" * 60_000_000, zipfile.ZIP_DEFLATED), REFUSED),
    Attack(
        "pytorch-memo-slots", "pytorch", "500,000 slots of the memo, from the last to the first",
        checkpoint(lambda: b"N" + b"".join(b"r" + struct.pack("<I", 0xFFFFFFFF - i * 8191 % 0xFFFFFFFF) for i in range(500_000)))),
    Attack("pytorch-globals", "pytorch", "300,000 names of globals",
           checkpoint(lambda: b"(" + b"".join(b"cm\nf%d\n" % i for i in range(300_000)) + b"t"), REFUSED),
    Attack("pytorch-globals-9999", "pytorch", "9,999 names of functions of os, 1,000 bytes each",
           checkpoint(lambda: b"(" + b"".join(b"cos\n%d%s\n" % (i, b"f" * 1000) for i in range(9_999)) + b"t")),
    Attack(
        "pytorch-rank", "pytorch", "2,000 tensors with 1,024 dimensions in the memo",
        checkpoint(lambda: pickles.value((1, ) * 1024) + b"q\1" + b"0}(" + b"".join(
            pickles.text(f"k{i}") + pickles.call("torch._utils", "_rebuild_tensor", FLOATS, pickles.integer(0), b"h\1", b"h\1")
            for i in range(2_000)) + b"u")),
    Attack("pytorch-names-long", "pytorch", "names of 60,000 bytes, one in the other",
           checkpoint(lambda: b"".join(b"}" + pickles.text("n" * 600) for _ in range(80)) + memoized(3_000) + b"s" * 80)),
    Attack("pytorch-expanded", "pytorch", "20 tensors of 1 TiB over 64 bytes",
           checkpoint(lambda: pickles.dictionary((f"k{i}", pickles.tensor(FLOATS, (1 << 38, ), (0, ))) for i in range(20))), SHOWN),
    Attack("pytorch-texts", "pytorch", "texts of 1 MiB in 1,000 places",
           checkpoint(lambda: b"(" + pickles.text("t" * (1 << 20)) + b"q\0" + b"h\0" * 1_000 + b"t"), SHOWN),
    Attack("pytorch-texts-kept", "pytorch", "a text of 32 KiB in 60,000 places",
           checkpoint(lambda: b"(" + pickles.text("\1" * 32_000) + b"q\0" + b"h\0" * 60_000 + b"t")),
    Attack("pytorch-metadata", "pytorch", "1,000,000 numbers", checkpoint(lambda: b"(" + b"K\1" * 1_000_000 + b"t")),
    Attack("pytorch-one-key", "pytorch", "one key 300,000 times", checkpoint(lambda: b"}(" + b"\x8c\1kN" * 300_000 + b"u")),
    Attack("pytorch-integer", "pytorch", "20,000 integers of 255 bytes",
           checkpoint(lambda: b"(" + (b"\x8a\xff" + b"\x7f" * 255) * 20_000 + b"t")),
    Attack("pytorch-tied", "pytorch", "groups of 30,000 tensors of the same bytes",
           checkpoint(lambda: memoized(30_000) + memoized(30_000) + b"\x86")),
    Attack("pytorch-legacy-keys", "pytorch-legacy", "one key 500,000 times",
           legacy(lambda: pickles.dictionary([("w", ONE)]), lambda: [("0", 0, b"")] * 500_000)),
    Attack("pytorch-legacy-count", "pytorch-legacy", "a storage of 2^62 elements",
           legacy(lambda: pickles.dictionary([("w", ONE)]), lambda: [("0", 1 << 62, DATA)]), SHOWN),
]
