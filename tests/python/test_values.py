"""Arrays have the values that the program serves, for a small model of each format, and no copy is made where none is needed."""
import json
import os
import pickle
import sys
import unittest
import unittest.mock

from python_testing import PythonTestCase, arrays_of, maps, numpy, run, tensors_of, weightfs, write_corpus
import containers
import demo
from tensors import Tensor
import weightfs._server

# Formats that keep their elements as they are in the container: at least one tensor is mapped.
MAPPED = {"Safetensors.model", "Gguf.model", "GgufBigEndian.model", "Npy.model", "Npz.model", "Pytorch.model",
          "PytorchLegacy.model", "Hdf5.model", "Tflite.model", "Onnx.model", "Ort.model", "RtenVersion2.model", "TvmParams.model",
          "Pickle.pkl", "Darknet.weights"}
# Compressed, or a copy that is verified first: no tensor is.
COPIED = {"TarGzip.model", "XgboostJson.model", "Lightgbm.model"}


def same(test, expected, array, what):
    """Equal bytes, shapes and types."""
    test.assertEqual((array.shape, array.dtype), (expected.shape, expected.dtype), what)
    test.assertEqual(numpy.ascontiguousarray(array).tobytes(), expected.tobytes(), what)


class Values(PythonTestCase):
    def setUp(self):
        super().setUp()
        patch = unittest.mock.patch.dict(sys.modules, ml_dtypes=None)  # its types are not those of .npy files
        patch.start()
        self.addCleanup(patch.stop)

    def check_model(self, source, name):
        """Compares all tensors, and returns how many are mapped."""
        arrays, floats = arrays_of(source, "npy", "float32")
        mapped = 0
        with weightfs.open(source) as model:
            for tensor in model.tensors():
                path, what = tensor._record["path"], (name, tensor.key)
                mapped += tensor.is_mapped
                if tensor.refused:
                    self.assertRaises(weightfs.Refused, tensor.numpy)
                    self.assertRaises(weightfs.Refused, tensor.raw)
                elif path not in arrays:
                    self.assertRaises(weightfs.NotFound, tensor.numpy)
                else:
                    self.check_tensor(tensor, arrays[path], what)
                    self.assertEqual(tensor.raw().nbytes, tensor.nbytes, what)
                if path in floats:
                    same(self, floats[path], tensor.float32(), what)
                elif not tensor.refused:
                    self.assertRaises(weightfs.NotFound, tensor.float32)
        return mapped

    def check_tensor(self, tensor, expected, what):
        array = tensor.numpy()
        same(self, expected, array, what)
        if tensor.is_mapped and tensor.nbytes > 0:
            self.assertIsInstance(array, numpy.memmap)
            self.assertFalse(array.flags.writeable)
        if array.ndim > 0:
            same(self, expected[1:], tensor[1:], what)
            same(self, expected[::-1], tensor[::-1], what)
            same(self, expected[...], tensor[...], what)
            if len(array) > 0:
                same(self, expected[-1:], tensor[-1:], what)
                self.assertEqual(numpy.asarray(tensor[0]).tobytes(), numpy.asarray(expected[0]).tobytes(), what)
            self.assertRaises(IndexError, lambda: tensor[len(array)])

    def test_tensors_of_each_format_are_those_that_the_program_serves(self):
        folder = self.path("models")
        os.mkdir(folder)
        names = write_corpus(folder)
        self.assertGreater(len(names), 40)
        mapped = {}
        for name in names:
            with self.subTest(name):
                mapped[name] = self.check_model(os.path.join(folder, name), name)
        self.assertEqual({name for name in MAPPED & set(names) if mapped.get(name) == 0}, set())
        self.assertEqual({name: mapped[name] for name in COPIED if mapped.get(name)}, {})
        self.assertGreaterEqual(len(MAPPED & set(names)), 10)

    def test_models_of_several_files_are_mapped_without_a_server(self):
        demo.write_demo(self.path("demo"))
        for name, count in (("demo.safetensors", 3), ("demo.gguf", 4), ("demo.pt", 3), ("demo-sharded", 3), ("demo-onnx", 2),
                            ("demo-split/demo-00001-of-00002.gguf", 4), ("demo.carton", 0), ("demo.bt", 8)):
            with self.subTest(name):
                self.assertEqual(self.check_model(self.path("demo", name), name), count)
                with weightfs.open(self.path("demo", name)) as model:
                    total = sum(int(tensor.numpy().size) for tensor in model.tensors() if tensor.is_mapped)
                    self.assertEqual(total > 0, count > 0)
                    self.assertEqual(os.listdir(self.sockets), [])

    def test_mapped_array_is_memory_of_the_container(self):
        source = self.sample()
        model = self.open(source)
        self.assertNotIn(source, maps())
        array = model["encoder/weight"]
        self.assertIn(source, maps())
        self.assertEqual(numpy.asarray(array).tobytes(), arrays_of(source, "npy")[0]["encoder/weight"].tobytes())
        model.close()
        self.assertEqual(array[0, 1], 1)  # the array keeps the mapping
        del array
        self.assertNotIn(source, maps())

    def test_index_is_the_same_on_the_command_line_and_over_http(self):
        demo.write_demo(self.path("demo"))
        for name, has_digests in (("demo.gguf", False), ("demo.pt", False), ("demo.carton", True)):
            source = self.path("demo", name)
            done = run("info", "--json", "--tensors", source)
            self.assertEqual(done.returncode, 0, done.stderr)
            index, document = json.loads(done.stdout), json.loads(run("info", "--json", source).stdout)
            own = {each: index.pop(each) for each in ("v", "local_files", "tensor_list")}
            self.assertEqual(index, document)
            kept = [{field: value for field, value in record.items() if field not in ("descr", "local", "npy", "float32")}
                    for record in own["tensor_list"]]
            self.assertEqual(kept, tensors_of(source))
            self.assertEqual(own["local_files"] == [], has_digests)
            served = json.loads(weightfs._server.Server(source, {}).start())
            self.assertEqual(served, own)

    def test_structures_texts_and_dates_of_a_pickle_are_those_of_numpy(self):
        expected = {"records": numpy.array([(1, 2.5), (3, 4.5)], dtype=[("n", "<i2"), ("x", "<f4")]),
                    "not ascii": numpy.array([(7,)], dtype=[("\u00e9", "<i2")]), "texts": numpy.array(["ab", "c"]),
                    "bytes": numpy.array([b"ab", b"c"]), "dates": numpy.array(["2020-01-01"], dtype="M8[D]")}
        with open(self.path("m.pkl"), "wb") as file:
            pickle.dump(expected, file)
        with weightfs.open(self.path("m.pkl")) as model:
            for name, array in expected.items():
                same(self, array, model[name], name)
                same(self, array[:1], model.tensor(name)[:1], name)

    def test_file_named_as_its_member_is_not_taken_for_it(self):
        """An archive, whose name is that of a member with the same size: the bytes are those of the member."""
        import zipfile
        inner = self.path("inner")
        os.mkdir(inner)
        source = self.path("w.npz")
        with open(os.path.join(inner, "w.npy"), "wb") as file:
            numpy.save(file, numpy.arange(6, dtype="<i4"))
        with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(file.name, "w.npy")
        os.rename(source, self.path("w.npy"))
        tensor, = self.open(self.path("w.npy")).tensors()
        self.assertFalse(tensor.is_mapped)
        self.assertEqual(tensor.numpy().tolist(), [0, 1, 2, 3, 4, 5])

    def test_dtype_is_named_truly_of_a_converted_tensor(self):
        source = self.sample(tensors=demo.hugging_face_layers(1))
        tensor = self.open(source).tensor("model.embed_tokens.weight")
        self.assertEqual((tensor.dtype, tensor.stored_dtype, tensor.shape), ("bfloat16", "BF16", (2048, 32)))
        self.assertEqual((tensor.numpy().dtype, tensor.raw().nbytes), (numpy.float32, 2 * 2048 * 32))

    def test_quantised_tensor_has_numbers_and_blocks(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        tensor = self.open(source).tensor("blk.0.attn_q.weight")
        self.assertEqual((tensor.dtype, tensor.raw().dtype, tensor.raw().nbytes), ("q8_0", numpy.uint8, 32 * 34))
        blocks = numpy.frombuffer(tensor.raw().tobytes(), [("d", "<f2"), ("q", "i1", 32)])
        numbers = (blocks["d"].astype(numpy.float32)[:, None] * blocks["q"]).reshape(tensor.shape)
        self.assertEqual(numbers.tobytes(), tensor.float32().tobytes())
        self.assertEqual(numbers[10:20].tobytes(), tensor[10:20].tobytes())
        self.assertEqual(numbers[3, 4:9].tobytes(), tensor[3, 4:9].tobytes())

    def test_status_of_an_incomplete_model_does_not_prevent_opening(self):
        folder = self.path("models")
        os.mkdir(folder)
        write_corpus(folder)
        source = os.path.join(folder, "Ort.model")
        self.assertEqual(run("info", source).returncode, 5)
        model = self.open(source)
        refused = [tensor for tensor in model.tensors() if tensor.refused]
        self.assertEqual([tensor.name for tensor in refused], ["short"])
        with self.assertRaisesRegex(weightfs.Refused, "short"):
            refused[0].numpy()

    def test_tensor_of_a_missing_shard_is_not_found_with_the_reason(self):
        shard = [Tensor("w", "float32", (1,), bytes(4))], [Tensor("lost", "float32", (1,), bytes(4))]
        folder = self.path("sharded")
        os.mkdir(folder)
        containers.write_safetensors_shards(folder, shard)
        os.unlink(os.path.join(folder, "model-00002-of-00002.safetensors"))
        model = self.open(folder)
        self.assertEqual(list(model), ["w"])
        reason = "no tensor 'lost'; the model is incomplete: 1 of 2 .*is missing: model-00002"
        with self.assertRaisesRegex(weightfs.NotFound, reason):
            model["lost"]


if __name__ == "__main__":
    unittest.main()
