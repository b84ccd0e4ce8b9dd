"""Situations that users of PyTorch's files reported, and what is right: rows of cases.py."""
import os
import struct
import zipfile

from cases import SOURCE, Case, info, table
import pickles

FLOATS = struct.pack("<6f", 0, 1, 2, 3, 4, 5)
ORDERED = pickles.call("collections", "OrderedDict")


def checkpoint(opcodes, storages=(FLOATS,), name="m.pt"):
    """Builds a checkpoint with this object."""

    def build(tmp):
        path = os.path.join(tmp, name)
        pickles.write_checkpoint(path, opcodes, storages)
        return path

    return build


def utils(name, *arguments):
    return pickles.call("torch._utils", name, *arguments)


def quantized(kind, stored, shape, quantizer):
    return utils("_rebuild_qtensor", pickles.storage(kind, "0", stored), pickles.integer(0), pickles.value(shape),
                 pickles.value(pickles.strides(shape)), quantizer, b"\x89", ORDERED)


def per_channel(scales, zeros):
    return (b"(" + pickles.function("torch", "per_channel_affine") + pickles.tensor(pickles.storage("Float", scales, 2), (2,)) +
            pickles.tensor(pickles.storage("Float", zeros, 2), (2,)) + pickles.integer(0) + b"t")


def tensor_v3(dtype, shape, key="0", size=24):
    return utils("_rebuild_tensor_v3", b"(" + pickles.text("storage") + pickles.function("torch.storage", "UntypedStorage") +
                 pickles.text(key) + pickles.text("cpu") + pickles.integer(size) + b"tQ", pickles.integer(0),
                 pickles.value(shape), pickles.value(pickles.strides(shape)), b"\x89", ORDERED,
                 pickles.function("torch", dtype), b"}")


def of_device(name, shape, dtype, code="f4"):
    size = int(code[1:])
    for count in shape:
        size *= count
    return utils(name, pickles.array(code, shape, FLOATS[:size]), pickles.function("torch", dtype), pickles.text("xla:0"), b"\x89")


def parameter(tensor):
    return utils("_rebuild_parameter", tensor, b"\x88", ORDERED)


WEIGHT = pickles.tensor(pickles.storage("Float", "0", 6), (2, 3))
QUINT4 = pickles.dictionary([("q4", quantized("QUInt4x2", 4, (2, 4), per_channel("1", "2"))),
                             ("a", pickles.tensor(pickles.storage("Float", "3", 6), (2, 3)))])
QUINT4_STORAGES = [b"\x0f\x60\x00\x53", FLOATS[:8], FLOATS[:8], FLOATS]
BESIDE_INT4 = pickles.dictionary([("i4", tensor_v3("int4", (24,), "1")), ("w", WEIGHT)])
PACKED = b"(" + quantized("QInt8", 6, (2, 3), b"(" + pickles.function("torch", "per_tensor_affine") + pickles.value(0.5) +
                          pickles.integer(0) + b"t") + WEIGHT + b"t"
SCRIPT_OBJECT = (pickles.function("torch", "ScriptObject") + b")\x81(" + PACKED +
                 pickles.text("__torch__.torch.classes.quantized.LinearPackedParamsBase") + b"tb")


def listed(*names):
    return [f'"name": "{name}"' for name in names]


def tensors(name, build, status=0, shows=(), hides=()):
    """A row for the names and types of tensors."""
    return Case(name, build, ("cat", SOURCE, "tensors.json"), status, {}, shows, hides)


SMALL = table("SmallTypes", [
    info("torch-quint4x2", checkpoint(QUINT4, QUINT4_STORAGES)),
    tensors("quint4x2-has-two-elements-in-a-byte", checkpoint(QUINT4, QUINT4_STORAGES),
            shows=[*listed("q4", "q4.scales", "q4.zero_points", "a"), '"shape": [2,4], "nbytes": 4']),
    info("torch-subbyte-dtypes", checkpoint(BESIDE_INT4, [FLOATS] * 2), parameters=6),
    Case("subbyte-dtypes-have-a-warning", checkpoint(pickles.dictionary([("i4", tensor_v3("uint1", (24,))), ("w", WEIGHT)])),
         ("verify", SOURCE), shows=["elements of type uint1 are shown as bytes"]),
    Case("unknown-dtype-is-bytes", checkpoint(pickles.dictionary([("x", tensor_v3("float3_x", (24,))), ("w", WEIGHT)])),
         ("verify", "--verbose", SOURCE), shows=['dtype "float3_x" is unknown; shown as bytes']),
    Case("unknown-dtype-of-a-part-is-not-damage",
         checkpoint(pickles.dictionary([("x", tensor_v3("float3_x", (5,))), ("w", WEIGHT)])), ("info", SOURCE), status=4,
         shows=['its dtype "float3_x" is unknown', "w "], hides=["DAMAGED"]),
])

DEVICES = table("OtherDevices", [
    tensors("torch-xla-names",
            checkpoint(pickles.dictionary([
                ("w", of_device("_rebuild_device_tensor_from_numpy", (2, 3), "float32")),
                ("h", of_device("_rebuild_device_tensor_from_numpy", (4,), "bfloat16")),
                ("c", utils("_rebuild_device_tensor_from_cpu_tensor", WEIGHT, pickles.function("torch", "float32"),
                            pickles.text("hpu"), b"\x89"))])),
            shows=[*listed("w", "h", "c"), '"path": "h", "dtype": "bfloat16"'], hides=["w.0", "h.0", "c.0"]),
    tensors("xla-of-old-versions", checkpoint(pickles.dictionary([("w", of_device("_rebuild_xla_tensor", (2, 3), "float32"))])),
            shows=listed("w")),
    tensors("parameter-of-a-device",
            checkpoint(pickles.dictionary([("p", parameter(of_device("_rebuild_device_tensor_from_numpy", (4,), "bfloat16")))])),
            shows=[*listed("p"), '"bfloat16"'], hides=["p.0"]),
    tensors("packed-weights-have-indices", checkpoint(pickles.dictionary([("p", SCRIPT_OBJECT)])), shows=listed("p.0", "p.1"),
            hides=["%~2"]),
])


def unpacked(directory="", without=(), extra=()):
    """Builds a directory into which an archive was unpacked, and returns a path in it."""

    def build(tmp):
        top = os.path.join(tmp, "s")
        path = checkpoint(pickles.dictionary([("w", WEIGHT), ("v", pickles.tensor(pickles.storage("Float", "1", 2), (2,)))]),
                          [FLOATS, FLOATS[:8]])(tmp)
        with zipfile.ZipFile(path) as archive:
            archive.extractall(top)
        for name in without:
            os.remove(os.path.join(top, "archive", name))
        for name, data in extra:
            with open(os.path.join(top, name), "wb") as file:
                file.write(data)
        return os.path.join(top, directory) if directory else top

    return build


def dictionary_in(name):
    """Builds a directory with a pickle that is no checkpoint."""

    def build(tmp):
        os.makedirs(os.path.join(tmp, "d"))
        with open(os.path.join(tmp, "d", name), "wb") as file:
            file.write(pickles.pickle(pickles.value({"a": 1})))
        with open(os.path.join(tmp, "d", "version"), "wb") as file:
            file.write(b"3\n")
        return os.path.join(tmp, "d")

    return build


UNPACKED = table("UnpackedCheckpoints", [
    info("torch-unpacked-directory", unpacked(), parameters=8),
    info("directory-itself", unpacked("archive"), parameters=8),
    info("path-of-the-pickle", unpacked("archive/data.pkl"), parameters=8),
    Case("its-safety", unpacked(), ("verify", "--safe", SOURCE), shows=["2 tensors"]),
    Case("missing-storage", unpacked(without=["data/1"]), ("info", SOURCE), status=3,
         shows=["INCOMPLETE: 1 of 2 tensors cannot be read", '"data/1": missing'], hides=["DAMAGED"]),
    tensors("other-tensors-of-a-missing-storage", unpacked("archive", without=["data/1"]), status=0, shows=listed("w", "v")),
    *(Case(f"without-{'-and-'.join(without)}", unpacked(directory, without=without), ("stats", "--json", SOURCE, "v"),
           fields={"tensors.0.shape": [2], "tensors.0.min": 0})
      for without, directory in ((("version",), "archive"), (("version", "byteorder"), ""), (("byteorder",), "archive/data.pkl"))),
    info("beside-hidden-files", unpacked(extra=[(".DS_Store", b"x")]), parameters=8),
    Case("directory-of-another-pickle", dictionary_in("data.pkl"), ("info", SOURCE), shows=["pickle"], hides=["PyTorch"]),
])


def package(scripted=False, damaged=False):
    """Builds an archive of torch.package: one resource, perhaps with a module of TorchScript in it."""

    def build(tmp):
        path = os.path.join(tmp, "p.pt")
        module = pickles.call("torch.nn", "Linear") + b"}(" + pickles.text("_parameters") + pickles.dictionary(
            [("weight", parameter(pickles.tensor(pickles.storage("Float", "0", 6), (2, 3))))]) + b"ub"
        keys = module.replace(pickles.text("0"), pickles.integer(0), 1)
        script = (b"(" + pickles.text("reduce_package") + pickles.integer(7) +
                  pickles.function("torch.jit._script", "unpackage_script_module") + pickles.value(("0",)) + b"tQ")
        with open(path, "wb") as file:
            archive = pickles.Zip(file)
            archive.add("tts/tts_models/model", pickles.pickle(script if scripted else keys))
            archive.add("tts/code.py", b"x = 1\n")
            archive.add("tts/.data/extern_modules", b"torch\n")
            archive.add("tts/.data/python_version", b"3.11.2")
            if scripted:
                attributes = pickles.dictionary([("bias", pickles.tensor(pickles.storage("Float", "0.storage", 6), (6,)))])
                archive.add("tts/.data/ts_code/0/data.pkl", pickles.pickle(pickles.function("__torch__", "M") + b")\x81" +
                                                                           attributes + b"b"))
                archive.add("tts/.data/ts_code/0/constants.pkl", pickles.pickle(b")"))
                archive.add("tts/.data/ts_code/code/__torch__.py", b"")
            if not damaged:
                archive.add("tts/.data/0.storage", FLOATS)
            archive.add("tts/.data/version", b"6\n")
            archive.close()
        return path

    return build


PACKAGES = table("Packages", [
    tensors("torch-package", package(), shows=[*listed("tts_models.model.weight"), '"shape": [2,3]']),
    info("package-has-its-parameters", package(), parameters=6),
    Case("package-is-compared", package(), ("verify", SOURCE), shows=["6 files match"], hides=["another file"]),
    Case("package-runs-its-modules", package(), ("verify", "--safe", SOURCE), 4, {}, ["tts/code.py: module of torch.package"]),
    tensors("package-with-torchscript", package(scripted=True), shows=listed("tts_models.model.bias")),
    Case("package-with-torchscript-names-nothing", package(scripted=True), ("verify", "--safe", SOURCE), 4, {},
         ["tts/code.py: module of torch.package"], hides=["which can run code"]),
    Case("package-without-a-storage-is-damaged", package(damaged=True), ("info", SOURCE), status=5, shows=["DAMAGED"]),
])


def pickled(opcodes, name="m.pkl"):
    def build(tmp):
        path = os.path.join(tmp, name)
        with open(path, "wb") as file:
            file.write(b"\x80\x04" + opcodes + b".")
        return path

    return build


def named(module, name):
    """A pickle that calls a function, with a harmless argument."""
    return pickled(pickles.text(module) + pickles.text(name) + b"\x93" + pickles.text("1") + b"\x85R")


def danger(case, module, name):
    return Case(case, named(module, name), ("verify", "--safe", SOURCE), 4, {}, [f"names {module}.{name}, which can run code"])


def harmless(case, module, name):
    return Case(case, named(module, name), ("verify", "--safe", SOURCE), 0, {}, (), ["run code"])


def unknown(case, module, name):
    return Case(case, named(module, name), ("verify", "--safe", SOURCE), 4, {},
                [f"names {module}.{name}, of which weightfs does not know that it is harmless"], ["run code"])


SAFE = table("PickleSafety", [
    danger("pickle-safe-misses", "numpy", "__builtins__"),
    danger("uuid", "uuid", "_get_command_stdout"),
    danger("inductor", "torch._inductor.codecache", "compile_file"),
    danger("config-module", "torch.utils._config_module", "ConfigModule.load_config"),
    danger("bottleneck", "torch.utils.bottleneck.__main__", "run_cprofile"),
    danger("main-of-a-package", "some.package.__main__", "main"),
    danger("dunder-behind-a-class", "collections", "namedtuple.__builtins__.__getitem__"),
    danger("module-under-another-name", "enum", "bltns.eval"),
    danger("method-of-a-library", "string", "Formatter.get_field"),
    danger("dataclasses", "dataclasses", "_create_fn"),
    Case("ufunc-by-name",
         pickled(pickles.call("numpy.core", "_ufunc_reconstruct", pickles.text("posix"), pickles.text("system")) +
                 pickles.text("1") + b"\x85R"), ("verify", "--safe", SOURCE), 4, {}, ["names posix.system, which can run code"]),
    Case("ufunc-of-numpy",
         pickled(pickles.call("numpy.core", "_ufunc_reconstruct", pickles.text("numpy.core._multiarray_umath"),
                              pickles.text("log1p"))), ("verify", "--safe", SOURCE), 0, {}, (), ["run code"]),
    harmless("plain-class", "argparse", "Namespace"),
    harmless("regular-expression", "re", "_compile"),
    unknown("class-of-a-user", "models.net", "Outer.Inner"),
    unknown("arguments-of-transformers", "transformers.training_args", "TrainingArguments"),
    harmless("function-of-torch-nn", "torch.nn.functional", "relu"),
])
