"""Pickles of Python objects: estimators, arrays, joblib."""
import struct
import zlib

from attack import REFUSED, SHOWN, Attack, honest, one_file  # puts tests/support on the path
import pickles

MIB = 1 << 20
ONE = pickles.array("u1", (1,), b"x")
EMPTY = pickles.call("numpy.core.multiarray", "_reconstruct", pickles.function("numpy", "ndarray"),
                     b"(" + pickles.integer(0) + b"tC\x01b")


def python(make):
    return one_file("m.pkl", lambda: pickles.pickle(make()))


def packed(make):
    return one_file("m.joblib", lambda: zlib.compress(pickles.pickle(make())))


def dictionary(items):
    return b"}(" + b"".join(pickles.text(key) + value for key, value in items) + b"u"


def shared_type(count, fields):
    """Arrays of one type with many fields, which is in the memo."""
    names = b"(" + b"".join(pickles.text(f"f{i}") for i in range(fields)) + b"t"
    one = pickles.dtype("u1")
    table = dictionary((f"f{i}", b"(" + one + pickles.integer(i) + b"t") for i in range(fields))
    sizes = b"".join(map(pickles.integer, (fields, 1, 16)))
    state = b"(" + pickles.integer(3) + pickles.text("|") + b"N" + names + table + sizes + b"t"
    kind = pickles.call("numpy", "dtype", pickles.text(f"V{fields}") + b"\x89\x88") + state + b"bq\x00"
    array = EMPTY + b"(" + pickles.integer(1) + b"(" + pickles.integer(0) + b"th\x00\x89C\x00tb"
    return kind + b"0" + dictionary((f"k{i}", array) for i in range(count))


def types_with_shared_fields(count, fields):
    """Types of their own that share the table of their fields."""
    names = b"(" + b"".join(pickles.text(f"f{i}") for i in range(fields)) + b"tq\x00"
    one = pickles.dtype("u1")
    table = dictionary((f"f{i}", b"(" + one + pickles.integer(i) + b"t") for i in range(fields)) + b"q\x01"
    state = pickles.integer(3) + pickles.text("|") + b"Nh\x00h\x01" + b"".join(map(pickles.integer, (fields, 1, 16)))
    kind = pickles.call("numpy", "dtype", pickles.text(f"V{fields}") + b"\x89\x88") + b"(" + state + b"tb"
    return names + b"0" + table + b"0" + b"](" + kind * count + b"e"


def deep_type(depth):
    kind = pickles.dtype("u1")
    for _ in range(depth):
        state = pickles.integer(3) + pickles.text("|") + b"(" + kind + b"(" + pickles.integer(1) + b"ttNN"
        kind = pickles.call("numpy", "dtype", pickles.text("V1") + b"\x89\x88") + b"(" + state
        kind += b"".join(map(pickles.integer, (1, 1, 0))) + b"tb"
    return kind


def objects(count, item):
    state = pickles.integer(1) + b"(" + pickles.integer(count) + b"t" + pickles.dtype("O8", "|") + b"\x89](" + item + b"e"
    return EMPTY + b"(" + state + b"tb"


def shared_objects(levels):
    """2^levels names of an array, by arrays of two equal objects."""
    item = ONE
    for _ in range(levels):
        item = objects(2, item + b"2")
    return item


def nested_joblib(depth):
    """Arrays of objects of joblib inside each other."""
    begin = pickles.joblib_array("O8", (1,), b"", 0)[:-1]
    return begin + b"\x80\x02" + (begin + b"\x80\x02") * (depth - 1) + b"N." * depth


def boosters_of_one_text(count, size):
    """Boosters of XGBoost that decode the same text."""
    text = pickles.text("binf" + "\xe9" * size) + b"q\x00"
    model = pickles.call("builtins", "bytearray", b"h\x00", pickles.text("latin-1"))
    booster = pickles.instance("xgboost.core", "Booster", pickles.text("handle") + model)
    return text + b"0](" + booster * count + b"e"


def one_booster(count):
    """A booster with many names."""
    model = pickles.call("builtins", "bytearray", b"B" + struct.pack("<I", 4) + b"binf")
    booster = pickles.instance("xgboost.core", "Booster", pickles.text("handle") + model)
    return booster + b"q\x000](" + b"h\x00" * count + b"e"


def shared_slices(arrays, slices):
    """Parameters of Paddle that share a list of slices."""
    names = b"(" + b"".join(pickles.text(f"w@@.{i}") for i in range(slices)) + b"lq\x00"
    entry = dictionary([("OriginShape", b"(" + pickles.integer(slices) + b"t"), ("slices", b"h\x00")]) + b"q\x01"
    table = dictionary((f"p{i}", b"h\x01") for i in range(arrays))
    items = dictionary([*((f"w@@.{i}", ONE) for i in range(slices)), ("UnpackBigParamInfor@@", table)])
    return names + b"0" + entry + b"0" + items


ATTACKS = [
    honest("python-10000", "pickle", "10,000 arrays", python(lambda: dictionary((f"k{i}", ONE) for i in range(10_000)))),
    honest("python-joblib-10000", "pickle", "10,000 arrays of joblib, compressed",
           packed(lambda: dictionary((f"k{i}", pickles.joblib_array("u1", (1,), b"x")) for i in range(10_000)))),
    Attack("python-zlib-zeros", "pickle", "an array of 40 MB in 40 kB",
           packed(lambda: pickles.array("u1", (40 * MIB,), bytes(40 * MIB)))),
    Attack("python-zlib-none", "pickle", "60,000,000 values in 60 kB", packed(lambda: b"N" * 60_000_000), REFUSED),
    Attack("python-array-claimed", "pickle", "an array of 2^62 bytes", python(lambda: pickles.array("u8", (1 << 59,), b"")), SHOWN),
    Attack("python-joblib-claimed", "pickle", "an array of joblib of 2^60 bytes",
           python(lambda: pickles.joblib_array("u8", (1 << 57,), b"x")), REFUSED),
    Attack("python-bytes-claimed", "pickle", "bytes of 2^63 bytes", python(lambda: b"\x8e" + struct.pack("<Q", 1 << 63)), REFUSED),
    Attack("python-type-shared", "pickle", "3,000 arrays of one type with 4,000 fields", python(lambda: shared_type(3_000, 4_000))),
    Attack("python-types-of-shared-fields", "pickle", "5,000 types that share a table of 4,000 fields",
           python(lambda: types_with_shared_fields(5_000, 4_000))),
    Attack("python-type-deep", "pickle", "a type of 20,000 subarrays inside each other", python(lambda: deep_type(20_000))),
    Attack("python-objects-shared", "pickle", "2^40 names of an array in arrays of objects", python(lambda: shared_objects(40)),
           REFUSED),
    Attack("python-objects-claimed", "pickle", "an array of 10^12 objects, one of which is there",
           python(lambda: objects(10**12, b"N")), SHOWN),
    Attack("python-joblib-nested", "pickle", "10,000 arrays of objects of joblib inside each other",
           python(lambda: nested_joblib(10_000)), REFUSED),
    Attack("python-line", "pickle", "a text of 64 MB in a line", one_file("m.pkl", lambda: b"V" + b"a" * (64 * MIB) + b"\np0\n.")),
    Attack("python-booster-texts", "pickle", "20,000 boosters that decode one text of 30 kB",
           python(lambda: boosters_of_one_text(20_000, 15_000))),
    Attack("python-booster-names", "pickle", "200,000 names of one booster", python(lambda: one_booster(200_000))),
    Attack("python-slices-shared", "pickle", "10,000 parameters that share 10,000 slices",
           python(lambda: shared_slices(10_000, 10_000))),
    Attack("python-keys", "pickle", "2,000,000 keys of one dict", python(lambda: b"}(" + b"K\1N" * 2_000_000 + b"u")),
]
