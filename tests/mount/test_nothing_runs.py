"""Models of other formats than PyTorch that have code, or name files outside of their directory: mounted and read
completely, nothing of that is run or opened."""
import io
import json
import sys
import tarfile
import zipfile
import zlib

from mounting import os, unittest
from tracing import TracedTestCase
import containers
import pickles
import protobuf
from tensors import Tensor

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "attacks"))
import attacks_dcp as dcp  # noqa: E402
import attacks_executorch as executorch  # noqa: E402
import attacks_flax as flax  # noqa: E402
import attacks_hdf5 as hdf5  # noqa: E402
import attacks_numpy as numpy  # noqa: E402
import attacks_tflite as tflite  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = os.path.join(HERE, "..", "..", "..", "shared", "samples")
SAMPLE_FOLDERS = ("pytorch", "onnx", "numpy", "hdf5", "tflite", "dduf", "llamafile", "coreml", "executorch", "nemo", "msgpack",
                  "paddle", "ggml_legacy")
SECRET = b"the secret outside"
GOOD = b"good"


def evil_pickle(marker):
    return pickles.pickle(pickles.call("posix", "system", pickles.text(f"touch {marker}")))


def python_objects(marker):
    """A good array, and calls in a key, in a value that is popped, by an extension's name, and as an array's class and type."""
    call = pickles.call("posix", "system", pickles.text(f"touch {marker}"))
    extension = pickles.text("os") + pickles.text("system") + pickles.integer(240)
    hidden = call + b"0" + pickles.call("copyreg", "add_extension", extension)
    array = pickles.array("u1", (4,), GOOD)
    evil = pickles.array("u1", (4,), GOOD, subclass=("posix", "system"))
    inner = pickles.call("pickle", "loads", b"B" + len(evil_pickle(marker)).to_bytes(4, "little") + evil_pickle(marker))
    items = pickles.text("good") + array + call + pickles.text("key") + pickles.text("evil") + evil + pickles.text("inner") + inner
    return b"\x80\x02" + hidden + b"0}(" + items + b"u."


def lambda_layer(marker):
    code = f"__import__('os').system('touch {marker}')"
    layer = {"class_name": "Lambda", "config": {"name": "code", "function": {"class_name": "__lambda__", "config": {"code": code}}}}
    return json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [layer]}})


def zip_of(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def h5(outside, marker=None):
    """A good dataset, one whose bytes are in another file, and a link into another file."""
    file = hdf5.Hdf5()
    text = file.put(outside.encode() + b"\0")
    heap = file.put(hdf5.struct.pack("<4s4xQQQ", b"HEAP", len(outside) + 1, hdf5.NOWHERE, text))
    slots = hdf5.struct.pack("<B3xHHQ", 1, 1, 1, heap) + hdf5.struct.pack("<QQQ", 0, 0, 4)
    external = file.dataset((1,), hdf5.contiguous(hdf5.NOWHERE, 4), (7, slots))
    good = file.dataset((1,), hdf5.contiguous(file.put(GOOD), 4))
    target = b"\0" + outside.encode() + b"\0/w\0"
    links = [b"\1\0\1w" + hdf5.struct.pack("<Q", good), b"\1\0\1e" + hdf5.struct.pack("<Q", external),
             b"\1\x08\x40\1l" + hdf5.struct.pack("<H", len(target)) + target]
    attributes = [] if marker is None else [hdf5.attribute(b"model_config", lambda_layer(marker).encode())]
    info = (2, hdf5.struct.pack("<BBQQ", 0, 0, hdf5.NOWHERE, hdf5.NOWHERE))
    return file.build(file.object(info, *((6, link) for link in links), *attributes))


def onnx(*places):
    """A good tensor, one per file name, and an operator in a library."""
    tensors = [protobuf.onnx_tensor("w", protobuf.ONNX_FLOAT, (1,), protobuf.data(9, GOOD))]
    tensors += [protobuf.onnx_external(f"e{i}", protobuf.ONNX_FLOAT, (1,), location=place) for i, place in enumerate(places)]
    library = protobuf.data(5, protobuf.data(1, "library") + protobuf.data(4, "evil.so"))
    return protobuf.onnx_model(protobuf.onnx_graph(tensors, [protobuf.onnx_node("PyOp", (), ("y",), library)]))


def coreml(*places):
    """A package's model: a good value, and one per file name."""
    number, data = protobuf.number, protobuf.data
    size = data(3, data(1, number(1, 4)))
    kind = data(2, data(1, number(1, 31) + number(2, 1) + size))
    good = kind + data(3, data(1, data(7, data(1, GOOD))))
    values = {"w": good, **{f"e{i}": kind + data(5, data(1, place) + number(2, 64)) for i, place in enumerate(places)}}
    constants = b"".join(data(3, data(1, "const") + data(3, data(1, name)) + data(5, data(1, "val") + data(2, value)))
                         for name, value in values.items())
    block = data(1, "CoreML7") + data(2, constants)
    function = data(1, "main") + data(2, data(2, "CoreML7") + data(3, block))
    return number(1, 8) + data(502, number(1, 1) + data(2, function))


def nemo(outside, marker):
    """A configuration and a checkpoint with code, a link and a member that lead out of the archive."""
    checkpoint = io.BytesIO()
    archive = pickles.Zip(checkpoint)
    call = pickles.call("posix", "system", pickles.text(f"touch {marker}"))
    good = pickles.tensor(pickles.storage("Byte", "0", 4), (4,))
    archive.add("archive/data.pkl", pickles.pickle(pickles.dictionary([("evil", call), ("w", good)])))
    archive.add("archive/data/0", GOOD)
    archive.close()
    members = {"./model_config.yaml": f"!!python/object/apply:os.system ['touch {marker}']\n".encode(),
               "./model_weights.ckpt": checkpoint.getvalue(), "../escaped": b"x"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("tokenizer.model")
        link.type, link.linkname = tarfile.SYMTYPE, outside
        tar.addfile(link)
    return out.getvalue()


def tflite_file(outside):
    """A good tensor, one in another file, and an operator that runs another interpreter's code."""
    codes = [{1: "FlexPyFunc", 3: ("i", 32)}]
    call = {0: ("I", 0), 1: ("i", (0,)), 2: ("i", (1,))}
    graph = tflite.graph([tflite.tensor(shape=(4,)), tflite.tensor("e", (4,), buffer=0, s10=("I", 1))], s3=[call])
    return tflite.file_bytes([graph], [{}, {0: ("B", GOOD)}], s1=codes, s8=[{0: outside}],
                             s9=[{0: ("I", 1), 1: ("I", 0), 2: ("Q", 0), 3: ("Q", 4)}])


def paddle(data):
    described = protobuf.number(1, 20) + protobuf.number(2, len(data))
    return bytes(16) + hdf5.struct.pack("<I", len(described)) + described + data


def paddle_program(marker):
    """One variable, and an operator that calls Python."""
    number, data = protobuf.number, protobuf.data
    variable = data(3, data(1, "w") + data(2, number(1, 7)) + number(3, 1))
    operator = data(4, data(3, "py_func") + data(4, data(1, "callable") + data(5, f"touch {marker}")))
    return data(1, number(1, 0) + variable + operator)


def checkpoint(marker, *paths):
    """A good tensor, one per path, an object that is a call, and a call in the .metadata."""
    chunk = dcp.saved((4,), GOOD)
    evil = dcp.saved_object(pickles.call("posix", "system", pickles.text(f"touch {marker}")))
    entry = dcp.tensor((4,), [dcp.chunk((0,), (4,))])
    entries = [("w", entry), *((f"e{i}", entry) for i in range(len(paths))),
               ("evil", dcp.instance(dcp.MODULE, "BytesStorageMetadata", b"")),
               ("call", pickles.call("posix", "system", pickles.text(f"touch {marker}")))]
    places = [dcp.place("w", (0,), dcp.FILE, 0, len(chunk)), dcp.place("evil", None, dcp.FILE, len(chunk), len(evil))]
    places += [dcp.place(f"e{i}", (0,), path, 0, 4) for i, path in enumerate(paths)]
    return dcp.metadata(entries, places), chunk + evil


class HostileModels(TracedTestCase):
    """Each model has a tensor of the bytes GOOD, which is read, so that the model is known to be understood."""

    def setUp(self):
        super().setUp()
        self.marker = self.path("ran")
        self.models = self.path("models")
        self.outside = ["../outside/secret.bin", "../outside/secret.h5"]
        for name in self.outside:
            self.write(name[3:], SECRET)

    def put(self, name, data):
        self.write(f"models/{name}", data.encode() if isinstance(data, str) else data)

    def put_named_files(self):
        """Models whose tensors are in files: outside, by an absolute path, behind a link."""
        secret = self.path("outside", "secret.bin")
        self.put("m.onnx", onnx(self.outside[0], secret, "link.data", "/etc/passwd", "file:///etc/passwd"))
        os.symlink(secret, os.path.join(self.models, "link.data"))
        places = ("@model_path/../../../../outside/secret.bin", secret, "@model_path/link.bin")
        self.put("m.mlpackage/Data/com.apple.CoreML/model.mlmodel", coreml(*places))
        os.symlink(secret, os.path.join(self.models, "m.mlpackage/Data/com.apple.CoreML/link.bin"))
        self.put("m.mlpackage/Manifest.json", json.dumps({"itemInfoEntries": {"A": {"path": "com.apple.CoreML/model.mlmodel"}},
                                                          "rootModelIdentifier": "A"}))
        self.put("m.tflite", tflite_file(self.outside[0]))
        self.put("m.h5", h5(secret, self.marker))
        weights = [{"name": "w", "dtype": "bool", "shape": [4]}]
        paths = ("good.bin", self.outside[0], secret, "file:///etc/passwd")
        self.put("tfjs/model.json", json.dumps({"weightsManifest": [{"paths": [path], "weights": weights} for path in paths]}))
        self.put("tfjs/good.bin", GOOD)
        constant = '<layer name="w" type="Const"><data element_type="u8" shape="4" offset="0" size="4"/></layer>'
        self.put("openvino/m.xml", f'<!DOCTYPE net SYSTEM "{secret}"><net version="11"><layers>{constant}</layers></net>')
        self.put("openvino/m.bin", GOOD)
        described, chunks = checkpoint(self.marker, self.outside[0], secret, "link.distcp")
        self.put("dcp/.metadata", described)
        self.put(f"dcp/{dcp.FILE}", chunks)
        os.symlink(secret, os.path.join(self.models, "dcp/link.distcp"))
        config = dict([dcp.entry("w", shape=(4,), strides=(1,)), dcp.entry("e0", self.outside[0]), dcp.entry("e1", secret)])
        self.put("m.pt2", zip_of({"m/archive_format": "pt2", "m/data/weights/s": GOOD, "m/data/aotinductor/m/x.so": "\x7fELF",
                                  "m/data/weights/m_weights_config.json": json.dumps({"config": config})}))
        self.put("sharded/good.weights.h5", h5(secret))
        names = ("good.weights.h5", self.outside[1], self.path("outside", "secret.h5"))
        self.put("sharded/m.weights.json", json.dumps({"weight_map": dict(zip("abc", names))}))

    def put_code(self):
        """Models with code, and programs."""
        self.put("m.npz", zip_of({"w.npy": numpy.npy(numpy.array(shape="(4,)"), GOOD),
                                  "evil.npy": numpy.npy(numpy.array("'|O'"), evil_pickle(self.marker)),
                                  "../escaped.npy": numpy.npy(numpy.array(shape="(4,)"), GOOD)}))
        self.put("code.npy", numpy.npy(numpy.array(f"__import__('os').system('touch {self.marker}')")))
        self.put("m.keras", zip_of({"metadata.json": "{}", "config.json": lambda_layer(self.marker),
                                    "model.weights.h5": h5(self.path("outside", "secret.bin"))}))
        weights = self.path("w.safetensors")
        containers.write_safetensors(weights, [Tensor("w", "uint8", (4,), GOOD)])
        index = {"_class_name": "Pipeline", "vae": ["../outside", "Evil"]}
        self.put("m.dduf",
                 zip_of({"model_index.json": json.dumps(index), "vae/config.json": "{}", "vae/m.safetensors": self.read(weights)}))
        gguf = self.path("w.gguf")
        containers.write_gguf(gguf, [Tensor("w", "int8", (4,), GOOD)])
        program = f"MZqFpD='\n#!/bin/sh\ntouch {self.marker}\n".encode()
        self.put("m.llamafile", program + zip_of({".args": "-m\n/etc/passwd\n", "w.gguf": self.read(gguf)}))
        os.chmod(os.path.join(self.models, "m.llamafile"), 0o755)
        self.put("m.nemo", nemo(self.path("outside", "secret.bin"), self.marker))
        self.put("m.pkl", python_objects(self.marker))
        self.put("m.joblib", zlib.compress(python_objects(self.marker)))
        self.put("m.pdiparams", paddle(GOOD))
        self.put("m.pdmodel", paddle_program(self.marker))

    def put_names(self):
        """Models that name their tensors like files outside, and values of unknown types."""
        unknown = b"\xC7" + bytes([len(evil_pickle(self.marker))]) + b"\x63" + evil_pickle(self.marker)
        self.put("m.msgpack", b"\x83" + b"\xA1w" + flax.array(b"\x91\4", b"\xA5uint8", b"\xC4\4" + GOOD) + b"\xA4evil" + unknown +
                 b"\xAD../../outside" + flax.array())
        self.put("ggml-m.bin", flax.whisper(flax.tensor(b"w", (4,), GOOD) + flax.tensor(b"../../outside/secret.bin")))
        self.put("m.ptd", executorch.ptd([executorch.segment(0, 4)], [executorch.named("w", executorch.layout((4,))),
                                                                      executorch.named(self.outside[0])], GOOD))

    def put_companions(self):
        """Models of two files, with links that lead outside."""
        self.put("n.param", "7767517\n2 1\nPReLU w 0 0 0=1\nPReLU ../../outside/secret.bin 0 0 0=9\n")
        self.put("n.bin", GOOD)
        self.put("d.weights", bytes([0, 0, 0, 0, 2]) + bytes(15) + 3 * GOOD)
        self.put("d.cfg", "[net]\nchannels=1\n[batchnorm]\n")
        for name, text in (("p.param", "7767517\n1 1\nPReLU w 0 0 0=1\n"), ("e.weights", bytes(32))):
            self.put(f"linked/{name}", text)
        for name in ("p.bin", "e.cfg"):
            os.symlink(self.path("outside", "secret.bin"), os.path.join(self.models, "linked", name))

    def test_hostile_models_cause_no_system_calls(self):
        self.put_named_files()
        self.put_code()
        self.put_names()
        self.put_companions()
        calls, contents = self.traced(self.models)
        self.assertTrue(any("m.onnx" in call for call in calls), "the trace lacks the models")
        for name in sorted(os.listdir(self.models)):
            shown = [data for path, data in contents.items() if path.startswith(name + "/") and "/tensors/" in path]
            if not name.startswith(("link.data", "code.npy", "m.pdmodel", "n.bin", "d.cfg", "linked")):
                self.assertIn(GOOD, shown, f"{name}: its tensor is not shown")
        self.assert_nothing_runs(calls, self.models)
        self.assertFalse(os.path.exists(self.marker), "a model ran a command")
        for path, data in contents.items():
            if path != "dcp/files/link.distcp":  # a link of the user, which files/ follows (semantics 19.2); no tensor does
                self.assertNotIn(SECRET, data, path)


class CraftedSamples(TracedTestCase):
    def test_samples_cause_no_system_calls(self):
        """The crafted files that are kept outside of the repository."""
        for folder in SAMPLE_FOLDERS:
            models = os.path.realpath(os.path.join(SAMPLES, folder))
            if not os.path.isdir(models):
                self.skipTest(f"no samples in {models}")
        for folder in SAMPLE_FOLDERS:
            with self.subTest(folder):
                models = os.path.realpath(os.path.join(SAMPLES, folder))
                calls, contents = self.traced(models)
                self.assertTrue(contents, "nothing was shown")
                self.assert_nothing_runs(calls, models)


if __name__ == "__main__":
    unittest.main()
