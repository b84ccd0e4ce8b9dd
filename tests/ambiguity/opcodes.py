"""Pickles and files of joblib whose readers may differ: keys that are equal, a memo that is written twice, bytes that are
opcodes."""
import itertools
import struct

from arrays import COUNT, numbers
import pickles
from rows import Row, honest

STOP = b"."


def protocol(number, body):
    return b"\x80" + bytes([number]) + body + STOP


def array(seed, shape=(COUNT,), code="f4", fortran=False):
    return pickles.array(code, shape, numbers(seed), fortran=fortran)


def short(text):
    raw = text.encode() if isinstance(text, str) else text
    return b"\x8c" + bytes([len(raw)]) + raw


# Spellings of the key "a", and keys that are not it.
TEXTS = (short("a"), pickles.text("a"), b"Va\n", b"V\\u0061\n", b"V\\U00000061\n", b"\x8d" + struct.pack("<Q", 1) + b"a",
         b"S'a'\n", b"S'\\x61'\n", b"S\"a\"\n", b"S'\\141'\n",
         b"U\1a", b"T\1\0\0\0a", b"C\1a", b"V\\x61\n", b"Va \n", b"V a\n", b"S'a' \n", b"S 'a'\n", b"S'a'a'\n", b"S'\\a'\n",
         b"S'\\\n", b"Sa\n")
# Spellings of 1, and values that are equal to it.
NUMBERS = (b"K\1", b"M\1\0", b"J\1\0\0\0", b"I1\n", b"I01\n", b"\x88", b"L1L\n", b"L1\n", b"\x8a\1\1", b"\x8a\2\1\0",
           b"\x8b\1\0\0\0\1", b"F1.0\n", b"F1\n", b"G\x3f\xf0\0\0\0\0\0\0",
           b"I0x1\n", b"I1_0\n", b"I00\n", b"\x8a\0", b"\x89", b"K\0", b"G\x80\0\0\0\0\0\0\0", b"F-0.0\n")


def items(*pairs, start=b"}", many=True):
    if not many:
        return start + b"".join(key + value + b"s" for key, value in pairs)
    return start + b"(" + b"".join(key + value for key, value in pairs) + b"u"


def equal_keys():
    one, two = array(1), array(2)
    for number in (2, 4):
        for many in (True, False):
            for text in TEXTS:
                yield "keys alike", protocol(number, items((TEXTS[0], one), (text, two), many=many))
                yield "keys alike, other order", protocol(number, items((text, one), (TEXTS[0], two), many=many))
                yield "a text", protocol(number, items((text, one), many=many))
            for key in NUMBERS:
                yield "numbers alike", protocol(number, items((NUMBERS[0], one), (key, two), many=many))
                yield "numbers alike, other order", protocol(number, items((key, one), (NUMBERS[0], two), many=many))
                yield "numbers alike, three", protocol(number, items((key, one), (short("b"), two), (b"\x88", one), many=many))
    for key in (short("1"), short("1.0"), short("True")):
        yield "a number and a text", protocol(4, items((b"K\1", one), (key, two)))


def memos():
    """Values that are kept and taken again."""
    one, two = array(1), array(2)
    pairs = (
        ("a place twice", short("a") + one + b"q\x20" + short("b") + two + b"q\x20" + short("c") + b"h\x20"),
        ("a place in two sizes", short("a") + one + b"q\x20" + short("b") + two + b"r\x20\0\0\0" + short("c") + b"h\x20"),
        ("a place as text", short("a") + one + b"p32\n" + short("b") + two + b"q\x20" + short("c") + b"g32\n"),
        ("a place as odd text", short("a") + one + b"p 32\n" + short("b") + b"g0x20\n"),
        ("a place with zeros", short("a") + one + b"p032\n" + short("b") + b"h\x20"),
        ("MEMOIZE after PUT", short("a") + one + b"q\x01" + short("b") + two + b"\x94" + short("c") + b"h\x01"),
        ("MEMOIZE counts", b"" + short("a") + one + b"\x94" + short("b") + two + b"\x94" + short("c") + b"h\x01"),
        ("MEMOIZE after a large place", short("a") + one + b"r\0\1\0\0" + short("b") + two + b"\x94" + short("c") + b"h\x01"),
        ("MEMOIZE counts places, not values", short("a") + one + b"q\x05" + b"q\x05" + b"\x94" + short("b") + b"h\x01"),
        ("a missing place", short("a") + one + short("b") + b"h\x63"),
    )
    for number in (2, 4, 5):
        for kind, body in pairs:
            yield f"memo: {kind}", protocol(number, b"}(" + body + b"u")
    for key in (b"q\1", b"\x94", b"p1\n"):
        yield "a key of the memo", protocol(4, b"}" + short("k") + key + one + b"s" + short("k") + two + b"s")


def stacks():
    one, two = array(1), array(2)
    texts = (
        ("DUP", b"}(" + short("a") + one + short("b") + one + b"2" + b"0u"),
        ("a value twice", b"}" + short("a") + one + b"2" + b"0s"),
        ("POP", b"}" + short("a") + two + b"0" + one + b"s"),
        ("POP_MARK", b"}" + short("a") + b"(" + two + b"1" + one + b"s"),
        ("POP of a mark", b"}(" + short("a") + b"(0" + one + b"u"),
        ("two marks", b"}((" + short("a") + one + b"u0"),
        ("an odd count", b"}(" + short("a") + one + short("b") + b"u"),
        ("DICT", b"(" + short("a") + one + short("a") + two + b"d"),
        ("below the result", one + b"}" + short("a") + two + b"s"),
        ("two results", b"}" + short("a") + two + b"s}" + short("b") + one + b"s"),
        ("a list", b"](" + one + two + b"e"),
        ("APPEND to a dictionary", b"}" + one + b"a"),
        ("a tuple", one + two + b"\x86"),
        ("a dictionary that is changed later", b"}q\1" + short("a") + one + b"s" + b"h\1" + short("a") + two + b"s"),
        ("a dictionary in itself", b"}q\1" + short("a") + one + b"s" + short("me") + b"h\1s"),
        ("SETITEMS without items", b"}(u" + short("a") + one + b"s"),
        ("a dictionary of dictionaries", b"}(" + short("a") + b"}" + short("b") + one + b"s" + short("a.b") + two + b"u"),
        ("names that join alike", b"}(" + short("a.b") + one + short("a") + b"}" + short("b") + two + b"su"),
        ("an OrderedDict twice", b"ccollections\nOrderedDict\n)R" + short("a") + one + b"s" + short("a") + two + b"s"),
        ("an OrderedDict of pairs",
         b"ccollections\nOrderedDict\n](" + short("a") + one + b"\x86" + short("a") + two + b"\x86e\x85R"),
        ("a name as bytes", b"}C\1a" + one + b"s"),
    )
    for number in (2, 4):
        for kind, body in texts:
            yield f"stack: {kind}", protocol(number, body)


def frames():
    """Lengths of frames that are not those of what follows, several protocols, several pickles."""
    body = items((short("a"), array(1)))
    other = items((short("a"), array(2)))
    size = len(body) + 1
    for number in (4, 5):
        for length in (size, size - 1, size + 1, 0, 5, 1 << 20, size + 50):
            framed = b"\x80" + bytes([number]) + b"\x95" + struct.pack("<Q", length) + body + STOP
            yield "a frame", framed
            yield "a frame, and bytes behind", framed + other + STOP
    for tail in (b"x", protocol(2, other), b"\n", bytes(100), b"N."):
        for number in (2, 4):
            yield "bytes behind the end", protocol(number, body) + tail
    for number in (0, 1, 2, 3, 4, 5, 6, 255):
        yield "a protocol", protocol(number, body)
        yield "a second protocol", b"\x80\2\x80" + bytes([number]) + body + STOP
        yield "a protocol inside", b"\x80\4" + b"}" + short("a") + b"\x80" + bytes([number]) + array(1) + b"s" + STOP
    yield "no protocol", body + STOP


def arrays_twice():
    """Types, orders and names of the functions that make an array."""
    renamed = ((b"numpy.core.multiarray", b"numpy._core.multiarray"), (b"numpy.core.multiarray\n", b"numpy.core.multiarray \n"),
               (b"_reconstruct\n", b" _reconstruct\n"), (b"numpy\nndarray", b"numpy.core.multiarray\nndarray"),
               (b"numpy\ndtype", b"numpy.core.multiarray\ndtype"))
    by_name = short("numpy.core.multiarray") + short("_reconstruct") + b"\x93"
    data = struct.pack("<I", 4 * COUNT)
    for seed in range(3):
        one = array(seed)
        yield "Fortran order", protocol(2, items((short("a"), array(seed, (2, 2), fortran=True))))
        yield "a shape", protocol(2, items((short("a"), array(seed, (2, 2)))))
        for code in ("f4", "<f4", ">f4", "=f4", "i4", "f2", "f8", "S4", "float32", "V4", "U1", "c8", "b1"):
            yield f"a type {code}", protocol(2, items((short("a"), array(seed, (COUNT,), code))))
        for old, new in renamed:
            yield "a name of a function", protocol(2, items((short("a"), one.replace(old, new))))
        stacked = one.replace(b"cnumpy.core.multiarray\n_reconstruct\n", by_name)
        yield "STACK_GLOBAL", protocol(4, items((short("a"), stacked)))
        yield "a text of Python 2", protocol(2, items((short("a"), one.replace(b"B" + data, b"T" + data))))


def pickle_rows():
    yield honest("pkl", protocol(2, items((short("a"), array(1)), (short("b"), array(2)))))
    for group in (equal_keys, memos, stacks, frames, arrays_twice):
        for kind, data in group():
            yield Row("pkl", kind, data)


def joblib_rows():
    """Arrays whose bytes follow the object: opcodes for pickle, numbers for joblib."""
    harmless = [numbers(1), b".....  ......  .", b"}q\1.}q\1.}q\1.}q\1.", b"0" * 16, b"\x80\2N.\x80\2N.\x80\2N.\x80\2N.",
                b"b" * 16, b"NN\x86NN\x86NN\x86NN\x86N..."]
    for seed in range(3):
        yield honest("joblib", protocol(3, items((short("a"), pickles.joblib_array("f4", (COUNT,), numbers(seed))))))
        for data, padding in itertools.product(harmless, (0, 1, 5, 11, 15, 16, 31, 255)):
            odd, plain = (pickles.joblib_array("f4", (COUNT,), *each) for each in ((data, padding), (numbers(seed),)))
            yield Row("joblib", "bytes that are opcodes", protocol(3, items((short("a"), odd), (short("b"), plain))))
        pair = ((short("a"), pickles.joblib_array("f4", (COUNT,), numbers(seed))),
                (short("a"), pickles.joblib_array("f4", (COUNT,), numbers(seed + 1))))
        yield Row("joblib", "a key twice", protocol(3, items(*pair)))
        yield Row("joblib", "bytes behind the end", protocol(3, items(pair[0])) + protocol(3, items(pair[1])))
        wrapped = pickles.joblib_array("f4", (COUNT,), numbers(seed))
        for old, new in ((b"allow_mmap\x88", b"allow_mmap\x89"), (b"C", b"F"),
                         (pickles.text("order") + pickles.text("C"), pickles.text("order") + pickles.text("F")),
                         (pickles.integer(16) + b"ub", pickles.integer(16) + b"uub")):
            yield Row("joblib", "an array in another way", protocol(3, items((short("a"), wrapped.replace(old, new, 1)))))
        for shape in ((2, 2), (4, 1), (2,), (5,), (0,), ()):
            yield Row("joblib", "a shape", protocol(3, items((short("a"), pickles.joblib_array("f4", shape, numbers(seed))),
                                                             (short("b"), wrapped))))
