"""Writes pickles, opcode by opcode, and checkpoints of PyTorch around them. Neither pickle nor torch is used."""
import struct
import zlib

from tensors import Hole, text as encoded

# The class of the storage of a dtype.
STORAGES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
            "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat"}
ALIGNMENT = 64
MAGIC = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"


def pickle(opcodes):
    return b"\x80\x02" + opcodes + b"."


def text(string):
    data = encoded(string)
    return b"X" + struct.pack("<I", len(data)) + data


def integer(number):
    return b"\x8a\x08" + struct.pack("<q", number)


def value(item):
    """A plain value of Python."""
    if item is None or isinstance(item, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[item]
    if isinstance(item, int):
        return integer(item)
    if isinstance(item, float):
        return b"G" + struct.pack(">d", item)
    if isinstance(item, str):
        return text(item)
    if isinstance(item, dict):
        return dictionary((key, value(content)) for key, content in item.items())
    return b"(" + b"".join(map(value, item)) + (b"t" if isinstance(item, tuple) else b"l")


def dictionary(items):
    """A dict of (key, opcodes of the value)."""
    return b"}(" + b"".join(value(key) + opcodes for key, opcodes in items) + b"u"


def function(module, name):
    return f"c{module}\n{name}\n".encode()


def call(module, name, *arguments):
    """A call with these opcodes as arguments."""
    return function(module, name) + b"(" + b"".join(arguments) + b"tR"


def storage(kind, key, count):
    return b"(" + text("storage") + function("torch", kind + "Storage") + text(key) + text("cpu") + integer(count) + b"tQ"


def strides(shape):
    steps = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        steps[i - 1] = steps[i] * shape[i]
    return tuple(steps)


def tensor(stored, shape, steps=None, offset=0):
    return call("torch._utils", "_rebuild_tensor_v2", stored, integer(offset), value(tuple(shape)),
                value(strides(shape) if steps is None else steps), b"\x89", call("collections", "OrderedDict"))


def tensors_of(tensors):
    """(name, opcodes) of tensors with a storage each; the key is the index."""
    for key, (name, dtype, shape, data) in enumerate(tensors):
        count = 1
        for size in shape:
            count *= size
        yield name, tensor(storage(STORAGES[dtype], str(key), count), shape)


def checksum(data, known={}):
    if not isinstance(data, Hole):
        return zlib.crc32(data)
    if len(data) not in known:
        known[len(data)] = zlib.crc32(bytes(data))
    return known[len(data)]


class Zip:
    """A zip as torch writes it: members are stored, and aligned by an extra field in the local header."""

    def __init__(self, file):
        self.file = file
        self.directory = []

    def add(self, name, data):
        name, at = name.encode(), self.file.tell()
        sizes = struct.pack("<QQ", len(data), len(data))
        fields = struct.pack("<HHHHHI", 45, 0, 0, 0, 0, checksum(data))
        large = struct.pack("<HH", 1, 16) + sizes
        padding = -(at + 30 + len(name) + len(large) + 4) % ALIGNMENT
        extra = large + b"FB" + struct.pack("<H", padding) + b"Z" * padding
        self.file.write(b"PK\3\4" + fields + b"\xff" * 8 + struct.pack("<HH", len(name), len(extra)) + name + extra)
        if isinstance(data, Hole):
            data.write_to(self.file)
        else:
            self.file.write(data)
        extra = struct.pack("<HH", 1, 24) + sizes + struct.pack("<Q", at)
        self.directory.append(b"PK\1\2" + struct.pack("<H", 45) + fields + b"\xff" * 8 +
                              struct.pack("<HHHHHII", len(name), len(extra), 0, 0, 0, 0, 0xFFFFFFFF) + name + extra)

    def close(self):
        at, count = self.file.tell(), len(self.directory)
        directory = b"".join(self.directory)
        end = at + len(directory)
        self.file.write(directory + b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(directory), at))
        self.file.write(b"PK\6\7" + struct.pack("<IQI", 0, end, 1))
        self.file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))
        self.file.truncate()


def write_checkpoint(path, opcodes, storages, root="archive"):
    """A zip of a pickled object and of its storages, in the order of their keys."""
    with open(path, "wb") as file:
        archive = Zip(file)
        archive.add(f"{root}/data.pkl", pickle(opcodes))
        archive.add(f"{root}/byteorder", b"little")
        for key, data in enumerate(storages):
            archive.add(f"{root}/data/{key}", data)
        archive.add(f"{root}/version", b"3\n")
        archive.close()


def write_pytorch(path, tensors, metadata=None):
    """A state dict; `metadata`: further values in it."""
    tensors = list(tensors)
    values = ((key, value(item)) for key, item in (metadata or {}).items())
    write_checkpoint(path, dictionary([*tensors_of(tensors), *values]), [data for _, _, _, data in tensors])


def legacy(opcodes, storages):
    """The form before torch 1.6; `storages`: (key, number of elements, bytes)."""
    parts = [
        pickle(MAGIC),
        pickle(integer(1001)),
        pickle(value({"protocol_version": 1001, "little_endian": True})),
        pickle(opcodes),
        pickle(value([key for key, _, _ in storages]))
    ]
    return b"".join(parts) + b"".join(struct.pack("<q", count) + data for _, count, data in storages)


def dtype(code, order="<"):
    """numpy.dtype with its state."""
    state = b"(" + integer(3) + text(order) + b"NNN" + integer(-1) + integer(-1) + integer(0) + b"t"
    return call("numpy", "dtype", text(code) + b"\x89\x88") + state + b"b"


def array(code, shape, data, subclass=("numpy", "ndarray"), fortran=False):
    """An array of NumPy, with its data as bytes."""
    sizes = b"(" + b"".join(map(integer, shape)) + b"t"
    made = call("numpy.core.multiarray", "_reconstruct", function(*subclass) + b"(" + integer(0) + b"tB\x01\0\0\0b")
    state = integer(1) + sizes + dtype(code) + (b"\x88" if fortran else b"\x89") + b"B" + struct.pack("<I", len(data)) + data
    return made + b"(" + state + b"tb"


def instance(module, name, attributes):
    """An object of a class; `attributes`: opcodes of names and values."""
    return function(module, name) + b")\x81}(" + attributes + b"ub"


def joblib_array(code, shape, data, padding=5):
    """An array as joblib writes it: its bytes after the object."""
    sizes = b"(" + b"".join(map(integer, shape)) + b"t"
    attributes = (text("subclass") + function("numpy", "ndarray") + text("shape") + sizes + text("order") + text("C") +
                  text("dtype") + dtype(code) + text("allow_mmap") + b"\x88" + text("numpy_array_alignment_bytes") + integer(16))
    return instance("joblib.numpy_pickle", "NumpyArrayWrapper", attributes) + bytes([padding]) + b"\xff" * padding + data
