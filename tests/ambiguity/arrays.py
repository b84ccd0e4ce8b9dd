"""Arrays of NumPy, pickles, files of joblib and the form of torch before 1.6, whose readers may differ; and safetensors."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pickles  # noqa: E402
from rows import Row, honest  # noqa: E402

COUNT = 4  # numbers of an array


def numbers(seed):
    """Float32 numbers that no other seed has."""
    return struct.pack(f"<{COUNT}f", *(seed + i / 8 for i in range(COUNT)))


def npy_of(header, data, version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def npy_header(descr="'<f4'", order="False", shape=f"({COUNT},)", more="", padding=b"\n"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}".encode() + padding


def npy(seed, **header):
    return npy_of(npy_header(**header), numbers(seed))


NPY_KEYS = ("'shape': (2,)", "'shape': (2, 2)", "'fortran_order': True", "'descr': '>f4'", "'descr': '<i4'", "'descr': '|u1'",
            "'shape': (2, 2), 'fortran_order': True", "'shape': (2,), 'shape': (4,)", "u'shape': (2,)", "'sh' 'ape': (2,)",
            "'\\x73hape': (2,)", "'\\163hape': (2,)", "'\\u0073hape': (2,)", "'''shape''': (2,)", "'extra': 1", "1: 2")


def npy_variants():
    """Headers that say a thing twice or in an odd way, and bytes behind the array."""
    for seed in range(3):
        yield honest("npy", npy(seed))
        for more in NPY_KEYS:
            yield Row("npy", f"a key twice: {more}", npy(seed, more=more))
        for tail in (b"x", b"\n", bytes(64), npy(9), npy(9) + npy(10), pickles.pickle(pickles.value({"a": 1})),
                     b"PK\5\6" + bytes(18), numbers(8)):
            yield Row("npy", "bytes behind the array", npy(seed) + tail)
        for descr in ("'f4'", "'=f4'", "'<f4 '", "'float32'", "'|f4'", "'>f4'", "'<f8'", "'<f2'", "'<i4'", "'<u4'", "'|S4'",
                      "'<U1'", "'|V4'", "'?'", "'|b1'", "'4f4'",
                      "('<f4', (2,))", "('<f4', 2)", "('<f4', ())", "[('x', '<f4')]", "[('x', '<f2'), ('x', '<f2')]",
                      "[('x', '<f2'), ('y', '<f2')]", "[('', '<f2'), ('', '<f2')]",
                      "[('x', '<f2'), ('', '|V2')]", "[(('t', 'x'), '<f4')]", "[('x', '<f2', (2,))]", "'<f2,<f2'", "'<c8'",
                      "'<M8[D]'", "'g'", "'<f16'"):
            yield Row("npy", f"a type: {descr}", npy(seed, descr=descr))
        for shape in ("(4)", "4", "[4]", "(4,1)", "(1, 4)", "(2, 2)", "(2,)", "(5,)", "(0,)", "()", "(-1,)", "(4L,)", "(0x4,)",
                      "(4.0,)", "(True, 4)", "(2, -2)", "(0o4,)",
                      "(4_0,)", "(1_0,)", "(0b100,)", "(+4,)", "(4,)*1", "(2**2,)", "(1+3,)", "(0_4,)", "(04,)"):
            yield Row("npy", f"a shape: {shape}", npy(seed, shape=shape))
        for order in ("True", "0", "1", "None", "'False'", "not True"):
            yield Row("npy", f"an order: {order}", npy(seed, order=order, shape="(2, 2)"))
        for version in (1, 2, 3, 4):
            yield Row("npy", "a version", npy_of(npy_header(), numbers(seed), version))
            yield Row("npy", "a version of the other length", npy_of(npy_header(padding=b" " * 300 + b"\n"), numbers(seed),
                                                                     version))
        for padding in (b"", b" ", b"#x\n", b"\0", b"\0\n", b"\r\n", b"\\\n", b"\t\n", b"\n\n ", b";\n", b" # {}\n", b"\x0c\n",
                        b"\xc2\xa0\n", b",\n", b"\n{}"):
            yield Row("npy", f"an end of the header {padding}", npy_of(npy_header(padding=padding), numbers(seed)))
            yield Row("npy", f"a begin of the header {padding}", npy_of(padding + npy_header(), numbers(seed)))


def safetensors(seed, name="w"):
    return safetensors_of(f'{{"{name}":{entry(0)}}}', numbers(seed))


def entry(at, dtype="F32", shape=(COUNT,), size=4 * COUNT, more=""):
    return f'{{"dtype":"{dtype}","shape":{json.dumps(list(shape))},"data_offsets":[{at},{at + size}]{more}}}'


def safetensors_of(header, data, length=None):
    raw = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


SAFETENSORS_MORE = (',"shape":[2]', ',"shape":[2,2]', ',"dtype":"I32"', ',"data_offsets":[0,8]', ',"data_offsets":[16,32]',
                    ',"sh\\u0061pe":[2,2]', ',"x":1', ',"x":1,"x":2',
                    ',"Shape":[2,2]', ',"dtype":"F32"', ',"shape ":[2]', ',"x":{"shape":[2]}', ',"":0', ',"x":[[[]]]')


def safetensors_variants():
    for seed in range(4):
        a, b = entry(0), entry(16)
        data, more = numbers(seed) + numbers(seed + 4), numbers(seed + 8)
        yield honest("safetensors", safetensors_of(f'{{"a":{a},"b":{b}}}', data))
        for first, second in (('"a"', '"a"'), ('"a"', '"\\u0061"'), ('"a/b"', '"a\\/b"'), ('"é"', '"\\u00e9"'),
                              ('"é"', '"e\u0301"'), ('"a"', '"A"'), ('""', '""'),
                              ('"\U0001f600"', '"\\ud83d\\ude00"'), ('"a"', '"a\\u0000"'), ('"a"', '"./a"'), ('"a"', '"a/"')):
            yield Row("safetensors", f"names alike: {first} {second}", safetensors_of(f"{{{first}:{a},{second}:{b}}}", data))
            yield Row("safetensors", f"names alike, one place: {first} {second}",
                      safetensors_of(f"{{{first}:{a},{second}:{a}}}", data[:16]))
            yield Row("safetensors", f"names alike, other shape: {first} {second}",
                      safetensors_of(f'{{{first}:{a},{second}:{entry(0, shape=(2, 2))}}}', data[:16]))
            yield Row("safetensors", f"names alike of three: {first} {second}",
                      safetensors_of(f'{{{first}:{a},"c":{entry(32)},{second}:{b}}}', data + more))
        for text in SAFETENSORS_MORE:
            yield Row("safetensors", f"a field: {text}", safetensors_of(f'{{"a":{entry(0, more=text)},"b":{b}}}', data))
        for extra in ('"__metadata__":{"a":"1","a":"2"}', '"__metadata__":{},"__metadata__":{}', '"__metadata__":null',
                      f'"__metadata__":{a}', '"__metadata__":{"a":1}', '"__metadat\\u0061__":{}'):
            for header in (f'{{{extra},"a":{a},"b":{b}}}', f'{{"a":{a},{extra},"b":{b}}}', f'{{"a":{a},"b":{b},{extra}}}'):
                yield Row("safetensors", f"metadata {extra}", safetensors_of(header, data))
        plain = f'{{"a":{a},"b":{b}}}'
        for tail in ("  ", "\n", "\0", "x", "{}", plain, ",", "\t\t", " x"):
            yield Row("safetensors", f"behind the header {tail!r}", safetensors_of(plain + tail, data))
            yield Row("safetensors", f"before the header {tail!r}", safetensors_of(tail + plain, data))
        for tail in (b"x", bytes(8), safetensors(9)):
            yield Row("safetensors", "bytes behind the data", safetensors_of(plain, data + tail))
        for ranges in ((0, 0), (0, 8), (8, 16), (16, 0), (0, 20), (4, 20)):
            yield Row("safetensors", f"places {ranges}", safetensors_of(f'{{"a":{entry(ranges[0])},"b":{entry(ranges[1])}}}',
                                                                        data + more))
        for number in ("16.0", "1.6e1", "-0", "016", "16e0", "+16", "18446744073709551632", '"16"', "true"):
            yield Row("safetensors", f"a number {number}",
                      safetensors_of(f'{{"a":{a},"b":{{"dtype":"F32","shape":[4],"data_offsets":[{number},32]}}}}', data))
        yield Row("safetensors", "a length of the header", safetensors_of(plain, data, len(plain) - 1))
        yield Row("safetensors", "a byte order mark", safetensors_of(b"\xef\xbb\xbf" + plain.encode(), data))
        yield Row("safetensors", "UTF-16", safetensors_of(plain.encode("utf-16-le"), data))


def torch_pickle(kind, key="0"):
    """A dictionary with one tensor of the storage, in a shape of each kind."""
    shape = (COUNT,) if kind == 1 else (2, 2)
    return pickles.pickle(pickles.dictionary([("w", pickles.tensor(pickles.storage("Float", key, COUNT), shape))]))


def torch_legacy():
    one = pickles.dictionary([("w", pickles.tensor(legacy_storage("0"), (COUNT,)))])
    two = pickles.dictionary([(key, pickles.tensor(legacy_storage(key), (COUNT,))) for key in ("0", "1")])
    for seed in range(8):
        first, second = ("0", COUNT, numbers(seed)), ("1", COUNT, numbers(seed + 8))
        again = ("0", COUNT, numbers(seed + 16))
        yield honest("pt", pickles.legacy(two, [first, second]))
        for kind, opcodes, storages in (("a storage twice", one, [first, again]), ("a storage more", one, [first, second]),
                                        ("a storage more, first", one, [second, first]),
                                        ("storages in another order", two, [second, first]),
                                        ("a storage three times", two, [first, second, again]),
                                        ("a storage too few", two, [first]),
                                        ("a storage of another size", one, [("0", 3, numbers(seed)[:12])]),
                                        ("a storage of a larger size", one, [("0", 5, numbers(seed) + b"abcd")])):
            data = pickles.legacy(opcodes, storages)
            yield Row("pt", f"legacy: {kind}", data)
            for tail in (b"x", data, pickles.pickle(opcodes), numbers(3)):
                yield Row("pt", f"legacy: {kind}, and bytes behind", data + tail)


def legacy_storage(key):
    kind = pickles.function("torch", "FloatStorage")
    return b"(" + pickles.text("storage") + kind + pickles.text(key) + pickles.text("cpu") + pickles.integer(COUNT) + b"NtQ"
