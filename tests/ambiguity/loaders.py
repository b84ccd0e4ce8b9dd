"""What the loaders of the formats read, as a list of (name, value). A loader that refuses a file raises any exception."""
import collections
import io
import json
import os
import pickle
import struct
import subprocess
import tarfile
import tempfile
import zipfile

import numpy

import ggufs
import onnxs


class Refused(Exception):
    pass


def of_array(array):
    """An array as a value: type, shape, numbers."""
    if array.dtype.names is not None:  # the bytes between fields belong to none
        return str(array.dtype), array.shape, repr(array.tolist())
    return array.dtype.newbyteorder("<").str, array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes()


def read_npy(path):
    return [("", of_array(numpy.load(path, allow_pickle=False)))]


def read_npz(path):
    with open(path, "rb") as file, numpy.load(file, allow_pickle=False) as arrays:
        found = [(name, arrays[name]) for name in dict.fromkeys(arrays.files)]
    return [(clean(name).replace("%2E", "."), of_array(value)) for name, value in found if isinstance(value, numpy.ndarray)]


def read_zip(path):
    """What `zipfile` extracts: the bytes of each name."""
    with zipfile.ZipFile(path) as archive:
        return [(clean(name),
                 archive.read(name)) for name in dict.fromkeys(archive.namelist()) if not name.endswith("/") or archive.read(name)]


def clean(name):
    """A name as it is a path of `files/` (semantics 9.1); bytes that are not marked as UTF-8 are that nevertheless."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    path = "/".join("%2E%2E" if part == ".." else part for part in parts)
    try:
        return path.encode("cp437").decode()
    except ValueError:
        return path


def extracted(archive):
    """What tarfile.extractall makes: it writes through links that are there, and through hard links."""
    places, content = {}, {}  # the path → a number; the number → bytes, or the path that a link names
    for number, member in enumerate(archive):
        path = clean(member.name)
        if member.isdir():
            continue
        if member.issym():
            places[path], content[number] = number, os.path.join(os.path.dirname(path), member.linkname)
        elif member.islnk():
            target = clean(member.linkname)
            places[path] = places.get(target, number)
            if target not in places:  # it comes later, and is copied
                content[number] = archive.extractfile(archive.getmember(member.linkname)).read()
        elif member.isreg() or member.type not in tarfile.SUPPORTED_TYPES:
            while isinstance(content.get(places.get(path)), str):
                path = os.path.normpath(content[places[path]])
            content[places.setdefault(path, number)] = archive.extractfile(member).read()

    def read(path):
        found = content.get(places.get(path))
        return read(os.path.normpath(found)) if isinstance(found, str) else found
    return sorted((path, read(path)) for path in places if read(path) is not None)


def read_tarfile(path):
    with tarfile.open(path) as archive:
        return extracted(archive)


def read_gnu_tar(path):
    """What tar(1) extracts; it omits names with `..`."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "--no-same-owner", "-f", path, "-C", folder], stderr=subprocess.DEVNULL, check=False)
        for place, _, names in os.walk(folder):
            for whole in (os.path.join(place, name) for name in names):
                if os.path.isfile(whole) and os.path.realpath(whole).startswith(folder):
                    with open(whole, "rb") as file:
                        out.append((os.path.relpath(whole, folder), file.read()))
    return sorted(out)


# --- pickles

NUMPY = {
    (f"numpy{core}.multiarray", "_reconstruct"): numpy.core.multiarray._reconstruct for core in (".core", "._core")
} | {("numpy", "ndarray"): numpy.ndarray, ("numpy", "dtype"): numpy.dtype, ("collections", "OrderedDict"): collections.OrderedDict}


class Unpickler(pickle.Unpickler):
    """Makes arrays and containers only."""

    def find_class(self, module, name):
        if (module, name) not in NUMPY:
            raise Refused(f"{module}.{name}")
        return NUMPY[module, name]


def flattened(item, name="", above=()):
    """The arrays in containers, named by their keys."""
    if isinstance(item, numpy.ndarray):
        return [(name, of_array(item))]
    if any(item is each for each in above):
        return []
    pairs = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, (list, tuple)) else ()
    dot = name + "." if name else ""
    return [found for key, value in pairs for found in flattened(value, dot + text_of(key), (*above, item))]


def text_of(key):
    """A key as a component of a name."""
    return key.decode() if isinstance(key, bytes) else f"{key:g}" if isinstance(key, float) else str(key)


def read_pickle(path):
    with open(path, "rb") as file:
        return flattened(Unpickler(file).load())


class Wrapper:
    """joblib.numpy_pickle.NumpyArrayWrapper, of arrays without objects."""

    def read(self, file):
        if getattr(self, "numpy_array_alignment_bytes", None) is not None:
            size, = file.read(1)
            file.read(size)
        count = int(numpy.multiply.reduce(self.shape, dtype=numpy.int64))
        array = numpy.frombuffer(file.read(count * self.dtype.itemsize), self.dtype, count)
        return array.reshape(self.shape[::-1]).transpose() if self.order == "F" else array.reshape(self.shape)


class Joblib(pickle._Unpickler):
    dispatch = dict(pickle._Unpickler.dispatch)

    def find_class(self, module, name):
        return Wrapper if (module, name) == ("joblib.numpy_pickle", "NumpyArrayWrapper") else Unpickler.find_class(self, module,
                                                                                                                   name)

    def load_build(self):
        super().load_build()
        if isinstance(self.stack[-1], Wrapper):
            self.stack.append(self.stack.pop().read(self.file))

    dispatch[pickle.BUILD[0]] = load_build


def read_joblib(path):
    with open(path, "rb") as file:
        unpickler = Joblib(file)
        unpickler.file = file
        return flattened(unpickler.load())


# --- torch

Storage = collections.namedtuple("Storage", "key count")


class Checkpoint(pickle.Unpickler):
    def persistent_load(self, found):
        return Storage(found[2], found[4])

    def find_class(self, module, name):
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, *_: (storage, offset, shape)
        return Storage if module == "torch" and name == "FloatStorage" else Unpickler.find_class(self, module, name)


def tensors_in(state, storages):
    out = []
    for name, (storage, offset, shape) in state.items():
        raw = storages[storage.key]
        count = int(numpy.prod(shape, dtype=numpy.int64))
        if len(raw) < 4 * (offset + count):
            raise Refused("a storage is too small")
        out.append((name, (tuple(shape), raw[4 * offset:4 * (offset + count)])))
    return out


def read_torch(path):
    with open(path, "rb") as file:
        is_zip = file.read(4) == b"PK\3\4"
    return read_torch_zip(path) if is_zip else read_torch_legacy(path)


def read_torch_zip(path):
    """inline_container.cc: the directory of the first member; miniz finds names in any letters, and one of several."""
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist()]
        root = names[0].partition("/")[0]
        if any(not name.startswith(f"{root}/") for name in names):
            raise Refused("a file beside the directory")
        lower = collections.Counter(name.lower() for name in names)

        def record(name):
            whole = f"{root}/{name}"
            if lower[whole.lower()] != 1:
                raise Refused(f"{lower[whole.lower()]} members {whole}")
            return archive.read(next(each for each in names if each.lower() == whole.lower()))
        record("version")
        state = Checkpoint(io.BytesIO(record("data.pkl"))).load()
        return tensors_in(state, {each[0].key: record(f"data/{each[0].key}") for each in state.values()})


def read_torch_legacy(path):
    with open(path, "rb") as file:
        magic, version, _ = (Checkpoint(file).load() for _ in range(3))
        if magic != 0x1950A86A20F9469CFC6C or version != 1001:
            raise Refused("magic")
        unpickler = Checkpoint(file)
        state = unpickler.load()
        counts = {each[0].key: each[0].count for each in state.values()}
        storages = {}
        for key in Checkpoint(file).load():
            if key not in counts:
                raise Refused("a key that no tensor has")
            count, = struct.unpack("<q", file.read(8))
            if count != counts[key]:
                raise Refused("another size")
            storages[key] = file.read(4 * count)
        return tensors_in(state, storages)


# --- others

def read_safetensors(path):
    """tensor.rs of the reference: names twice, the last; fields twice are refused; no holes."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<Q", data[:8])
    raw = data[8:8 + length]
    if raw[:1] != b"{" or len(raw) != length:
        raise Refused("no header")

    def once(pairs):
        if len({key for key, _ in pairs}) != len(pairs) and {"dtype", "shape", "data_offsets"} & {key for key, _ in pairs}:
            counts = collections.Counter(key for key, _ in pairs)
            if any(counts[key] > 1 for key in ("dtype", "shape", "data_offsets")):
                raise Refused("a field twice")
        if sum(key == "__metadata__" for key, _ in pairs) > 1:
            raise Refused("__metadata__ twice")
        return dict(pairs)

    header = json.loads(raw.decode(), object_pairs_hook=once, parse_constant=lambda _: None)
    metadata = header.pop("__metadata__", None) or {}
    if any(not isinstance(value, str) for value in metadata.values()):
        raise Refused("metadata")
    out, at = [], 0
    for name, found in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = found["data_offsets"]
        if not all(type(number) is int and number >= 0 for number in (begin, end, *found["shape"])) or begin != at:
            raise Refused("a hole")
        at = end
        if end - begin != 4 * int(numpy.prod(found["shape"])) or found["dtype"] not in ("F32", "I32"):
            raise Refused("a size")
        out.append((name, (tuple(found["shape"]), data[8 + length + begin:8 + length + end])))
    if 8 + length + at != len(data):
        raise Refused("a length")
    return out


def by_rules(module):
    def read(path):
        with open(path, "rb") as file:
            return [(name, (shape, raw)) for name, shape, raw in module.read(file.read())]
    return read


def in_child(read):
    """A loader whose library may crash."""
    def load(path):
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receiver)
            try:
                answer = pickle.dumps(read(path))
            except BaseException:  # also those of the library
                answer = b""
            with open(sender, "wb") as out:
                out.write(answer)
            os._exit(0)
        os.close(sender)
        with open(receiver, "rb") as answers:
            answer = answers.read()
        os.waitpid(child, 0)
        if not answer:
            raise Refused("refused or crashed")
        return pickle.loads(answer)
    return load


def read_hdf5(path):
    """h5py, which looks names up one by one; links to nothing are omitted."""
    def walk(group, prefix, above):
        for name in dict.fromkeys(group):
            found = group.get(name)
            if found is None and group.get(name, getlink=True) is None:
                raise Refused("a name that is not found")
            if isinstance(found, h5py.Group) and not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue  # weightfs shows it in the metadata
            if isinstance(found, h5py.Dataset):
                out.append((prefix + name, (found.shape, found[()].tobytes())))
            elif isinstance(found, h5py.Group) and found.id not in above:
                walk(found, f"{prefix}{name}/", [*above, found.id])
    out = []
    with h5py.File(path, "r") as file:
        walk(file, "", [file["/"].id])
    return out


def read_joblib_itself(path):
    return flattened(joblib.load(path))


def read_onnx(path):
    arrays = [(tensor.name, onnx_arrays.to_array(tensor)) for tensor in onnx.load(path).graph.initializer]
    return [(name, (array.shape, array.tobytes())) for name, array in arrays]


# The loaders of each format. If there are several, each that reads the file must read what weightfs shows.
LOADERS = {"npy": [read_npy], "npz": [read_npz], "zip": [read_zip], "tar": [read_tarfile, read_gnu_tar], "pkl": [read_pickle],
           "joblib": [read_joblib],
           "pt": [read_torch], "safetensors": [read_safetensors], "gguf": [by_rules(ggufs)], "onnx": [by_rules(onnxs)], "h5": []}

MISSING = []  # packages of Debian that this machine lacks
try:
    import joblib
    LOADERS["joblib"].append(read_joblib_itself)
except ImportError:
    MISSING.append("python3-joblib")
try:
    import onnx
    import onnx.numpy_helper as onnx_arrays
    LOADERS["onnx"].append(read_onnx)
except ImportError:
    MISSING.append("python3-onnx")
try:
    import h5py
    LOADERS["h5"].append(in_child(read_hdf5))
except ImportError:
    MISSING.append("python3-h5py")
