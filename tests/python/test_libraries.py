"""The module with other libraries: fsspec, pandas, zarr, torch, ml_dtypes and the readers of safetensors and GGUF. A test is
skipped where its library is not installed."""
import importlib.util
import io
import json
import os
import pickle
import sys
import threading
import types
import unittest
import unittest.mock
import zipfile

from python_testing import PythonTestCase, numpy, until, weightfs
from mounting import sample_tensors
from tensors import Tensor
import containers
import demo
import weightfs._dtypes


def needs_module(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"python3-{name.replace('_', '-')} is not installed")


@needs_module("fsspec")
class Fsspec(PythonTestCase):
    def setUp(self):
        super().setUp()
        self.use_fsspec()

    def test_fsspec_reads_files_of_a_model(self):
        import fsspec
        source = self.sample()
        url = f"weightfs://{source}!/metadata.json"
        with fsspec.open(url, "rt") as file:
            self.assertEqual(json.load(file)["format"], "safetensors")
        files, path = fsspec.core.url_to_fs(url)
        self.assertEqual(files.info(path)["type"], "file")
        self.assertEqual(files.cat_file(path, 0, 1), b"{")
        self.assertEqual(files.cat_file(path, -2), b"}\n")
        root = f"{source}!/"
        self.assertIn(f"{source}!/tensors", [each["name"] for each in files.ls(root)])
        self.assertIn(f"{source}!/npy/encoder/weight.npy", files.find(f"{source}!/npy"))
        self.assertTrue(files.exists(f"{source}!/files/model.safetensors"))
        self.assertEqual(files.size(f"{source}!/files/model.safetensors"), os.path.getsize(source))
        self.assertFalse(files.exists(f"{source}!/nothing"))
        with self.assertRaises(FileNotFoundError):
            files.cat_file(f"{self.path('missing')}!/metadata.json")
        with self.assertRaises(OSError):
            files.open(path, "wb")
        mapper = fsspec.get_mapper(f"weightfs://{source}!/files")  # what zarr uses
        self.assertEqual(list(mapper), ["model.safetensors"])
        self.assertEqual(mapper["model.safetensors"], self.read("model.safetensors"))
        with fsspec.open(f"weightfs://{source}!/npy/bias.npy") as file:
            self.assertEqual(numpy.load(file).tolist(), [0, 1, 2, 3])

    def test_fsspec_opens_a_replaced_model_again(self):
        import fsspec
        source = self.sample()
        files, path = fsspec.core.url_to_fs(f"weightfs://{source}!/tensors.json")
        before = files.cat_file(path)
        self.sample("new", [Tensor("other", "int8", (1,), b"\5")])
        os.rename(self.path("new"), source)
        self.assertIn(b"other", files.cat_file(path))
        self.assertNotIn(b"other", before)

    @needs_module("pandas")
    def test_fsspec_opens_a_model_again_that_was_away(self):
        import fsspec
        source = self.sample()
        files = fsspec.filesystem("weightfs")
        files.info(f"{source}!/files")
        os.rename(source, source + ".away")
        self.assertRaises(FileNotFoundError, files.info, f"{source}!/files")
        os.rename(source + ".away", source)
        self.assertEqual(files.info(f"{source}!/files")["type"], "directory")

    def test_pandas_reads_a_table_in_a_model(self):
        import pandas
        with zipfile.ZipFile(self.path("model.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("labels.csv", "name,count\ncat,1\ndog,2\n")
        table = pandas.read_csv(f"weightfs://{self.path('model.zip')}!/files/labels.csv")
        self.assertEqual(table["count"].tolist(), [1, 2])

    def test_directories_are_listed_searched_and_copied(self):
        import fsspec
        source = self.sample()
        files = fsspec.filesystem("weightfs")
        root = f"{source}!"
        self.assertTrue(files.isdir(f"weightfs://{root}") and files.isdir(f"{root}/files") and files.isfile(f"{root}/tensors.json"))
        self.assertEqual(files.glob(f"{root}/*.json"), [f"{root}/metadata.json", f"{root}/tensors.json"])
        folders = [os.path.relpath(folder, root) for folder, _, _ in files.walk(f"{root}/npy")]
        self.assertEqual(folders, ["npy", "npy/encoder"])
        files.get(f"{root}/npy", self.path("copy"), recursive=True)
        self.assertEqual(numpy.load(self.path("copy", "bias.npy")).tolist(), [0, 1, 2, 3])
        with self.assertRaises(FileNotFoundError):
            files.ls(f"{root}/missing")
        with self.assertRaises(IsADirectoryError):
            files.open(f"{root}/files")

    def test_ends_and_blocks_of_files_are_read(self):
        import fsspec
        source = self.sample()
        files, content = fsspec.filesystem("weightfs"), self.read("model.safetensors")
        path = f"{source}!/files/model.safetensors"
        self.assertEqual((files.tail(path, 7), files.head(path, 7)), (content[-7:], content[:7]))
        self.assertEqual((files.tail(path, 10**6), files.read_block(path, 3, 5), files.read_block(path, 3, None)),
                         (content, content[3:8], content[3:]))
        for start, end in ((-7, None), (None, -7), (5, 10**6), (10**6, None), (-10**6, 5), (8, 3), (None, None), (-7, -2)):
            self.assertEqual(files.cat_file(path, start, end), content[start:end], (start, end))
        self.assertEqual(files.cat_ranges([path] * 2, [0, -3], [4, None]), [content[:4], content[-3:]])
        with files.open(path) as file:
            self.assertEqual(file.size, len(content))

    def test_threads_and_file_systems_share_one_model(self):
        """fsspec makes a file system for each thread, and keeps it after the thread has ended."""
        import fsspec
        source, found = self.sample("q.gguf", demo.ggml_layers(1), "gguf"), []

        def read():
            found.append(fsspec.filesystem("weightfs").cat_file(f"{source}!/float32/blk.0.attn_q.weight.npy")[:6])
            started.wait(60)  # no thread gets the number of another one
        started = threading.Barrier(4)
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(found, [b"\x93NUMPY"] * 4)
        again = fsspec.filesystem("weightfs", skip_instance_cache=True)
        self.assertTrue(again.exists(f"{source}!/metadata.json"))
        self.assertEqual(len(os.listdir(self.sockets)), 1)

    def test_models_that_were_used_last_stay_open(self):
        import fsspec
        import weightfs.fsspec_filesystem
        files = fsspec.filesystem("weightfs")
        sources = [self.sample(f"{number}.gguf", demo.ggml_layers(1), "gguf") for number in range(3)]
        with unittest.mock.patch("weightfs.fsspec_filesystem.MAX_MODELS", 2):
            first = files.open(f"{sources[0]}!/files/0.gguf")
            for source in sources[1:]:
                files.cat_file(f"{source}!/metadata.toml")
            self.assertEqual(first.read(), self.read("0.gguf"))  # its model is open as long as the file
            self.assertEqual(len(os.listdir(self.sockets)), 3)
            del first
            until(lambda: len(os.listdir(self.sockets)) == 2, "the model does not end with its last file")

    def test_model_that_was_closed_is_opened_again(self):
        import fsspec
        files, source = fsspec.filesystem("weightfs"), self.sample()
        files._model(source).close()
        self.assertEqual(files.cat_file(f"{source}!/tensors/bias"), numpy.arange(4, dtype="<i4").tobytes())

    def test_open_file_of_a_replaced_model_is_changed_and_not_closed(self):
        import fsspec
        files, source = fsspec.filesystem("weightfs"), self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        file = files.open(f"{source}!/npy/blk.0.attn_q.weight.npy")
        self.sample("new", demo.ggml_layers(2), "gguf")
        os.rename(self.path("new"), source)
        self.assertTrue(files.exists(f"{source}!/npy/blk.1.attn_q.weight.npy"))
        self.assertRaises(weightfs.Changed, file.read)

    def test_copies_of_filecache_are_made_again_after_a_change(self):
        import fsspec
        source = self.sample()
        options = {"target_protocol": "weightfs", "cache_storage": self.path("copies"), "check_files": True}
        self.assertEqual(fsspec.filesystem("filecache", **options).cat(f"{source}!/tensors/bytes"), bytes(range(5)))
        self.sample("new", [tensor._replace(data=bytes(len(tensor.data))) for tensor in sample_tensors()])
        os.rename(self.path("new"), source)
        self.assertEqual(fsspec.filesystem("filecache", **options).cat(f"{source}!/tensors/bytes"), bytes(5))

    def test_relative_source_is_that_of_the_directory_in_which_it_was_opened(self):
        import fsspec
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        for number, folder in enumerate(("one", "two")):
            os.mkdir(self.path(folder))
            self.sample(f"{folder}/m.safetensors", [Tensor("w", "int8", (1,), bytes([number]))])
            os.chdir(self.path(folder))
            with fsspec.open("weightfs://m.safetensors!/tensors/w") as file:
                self.assertEqual(file.read(), bytes([number]))

    def test_names_with_exclamation_marks_and_blanks_are_found(self):
        import fsspec
        for name in ("a! b#c%41.safetensors", "a!"):
            self.sample(name, [Tensor("x!y z", "int8", (1,), b"\5")])
            with fsspec.open(f"weightfs://{self.path(name)}!/tensors/x!y z") as file:
                self.assertEqual(file.read(), b"\5")
            self.assertIn(f"{self.path(name)}!/tensors", fsspec.filesystem("weightfs").ls(f"{self.path(name)}!/", False))

    def test_filesystem_is_pickled_and_its_model_is_opened_once(self):
        import fsspec
        source = self.sample()
        files = fsspec.filesystem("weightfs", offline=True)
        with unittest.mock.patch("weightfs.fsspec_filesystem.Model", wraps=weightfs.Model) as opened:
            for path in ("metadata.json", "tensors.json", "npy/bias.npy"):
                files.cat_file(f"{source}!/{path}")
            self.assertEqual(opened.mock_calls, [unittest.mock.call(source, offline=True)])
        again = pickle.loads(pickle.dumps(files))
        self.assertEqual(again.cat_file(f"{source}!/tensors/bias"), numpy.arange(4, dtype="<i4").tobytes())

    def test_copies_of_simplecache_are_those_files(self):
        import fsspec
        source = self.sample()
        url = f"simplecache::weightfs://{source}!/npy/bias.npy"
        with fsspec.open(url, simplecache={"cache_storage": self.path("copies")}) as file:
            self.assertEqual(numpy.load(io.BytesIO(file.read())).tolist(), [0, 1, 2, 3])

    @needs_module("zarr")
    def test_zarr_reads_an_array_in_a_model(self):
        import zarr
        about = {"zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": "<f4", "compressor": None, "fill_value": 7,
                 "order": "C", "filters": None}
        expected = numpy.arange(12, dtype="<f4").reshape(4, 3)
        with zipfile.ZipFile(self.path("model.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("weights/.zarray", json.dumps(about))
            archive.writestr("weights/0.0", expected[:2].tobytes())
        expected[2:] = 7  # a missing chunk has the fill value
        array = zarr.open(f"weightfs://{self.path('model.zip')}!/files/weights", mode="r")
        self.assertEqual(numpy.asarray(array[:]).tolist(), expected.tolist())


class Torch(PythonTestCase):
    TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "bfloat16",
             "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16", "uint32", "uint64")

    @needs_module("torch")
    def test_tensors_of_torch_have_the_types_shapes_and_bytes(self):
        import torch
        sizes = {"bool": 1, "bfloat16": 2, **dict.fromkeys((name for name in self.TYPES if name.startswith("float8")), 1)}
        written = []
        for dtype in self.TYPES:
            size = sizes.get(dtype) or numpy.dtype(dtype).itemsize
            for shape in ((2, 3), (), (0, 3)):
                count = int(numpy.prod(shape))
                data = b"\1\0\1\0\0\1"[:count] if dtype == "bool" else bytes(range(1, 1 + count * size))
                written.append(Tensor(f"{dtype}{list(shape)}", dtype, shape, data))
        model, refused = self.open(self.sample(tensors=written)), []
        for tensor in written:
            wanted = getattr(torch, tensor.dtype, None)
            with self.subTest(tensor.name):
                try:
                    found = model.tensor(tensor.name).torch()
                except weightfs.Refused as error:
                    self.assertIn(tensor.dtype, str(error))
                    refused.append(tensor.dtype)
                    continue
                self.assertEqual((found.dtype, tuple(found.shape)), (wanted, tensor.shape))
                self.assertEqual(bytes(found.contiguous().reshape(-1).view(torch.uint8).tolist()), tensor.data)
        # Old versions of torch lack some types, or do not take them from NumPy.
        self.assertEqual({name for name in refused if not name.startswith(("float8", "uint"))}, set())

    @needs_module("torch")
    def test_bfloat16_of_torch_has_the_numbers_and_memory_of_its_own(self):
        import torch
        model = self.open(self.sample(tensors=demo.hugging_face_layers(1)))
        tensor = model.tensor("model.embed_tokens.weight").torch()
        self.assertTrue(torch.equal(tensor.float(), torch.from_numpy(model.tensor("model.embed_tokens.weight").float32())))
        tensor.zero_()
        self.assertNotEqual(float(model.tensor("model.embed_tokens.weight").float32().sum()), 0)

    @needs_module("torch")
    def test_quantised_tensor_is_float32_in_torch(self):
        import torch
        model = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf"))
        tensor = model.tensor("blk.0.attn_q.weight")
        self.assertTrue(torch.equal(tensor.torch(), torch.from_numpy(tensor.float32())))

    def test_missing_torch_is_an_import_error_before_bytes_are_read(self):
        tensor = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf")).tensor("blk.0.attn_q.weight")
        with unittest.mock.patch.dict(sys.modules, torch=None):
            self.assertRaises(ImportError, tensor.torch)
        self.assertEqual(os.listdir(self.sockets), [])

    def test_types_are_mapped_to_those_of_torch(self):
        """With a double of torch that records what it is given."""
        class Given:
            def __init__(self, array):
                self.array = array

            def view(self, wanted):
                return self.array, wanted

        double = types.SimpleNamespace(from_numpy=Given, bfloat16="torch.bfloat16", float8_e4m3fn="torch.float8_e4m3fn",
                                       __version__="double")
        with unittest.mock.patch.dict(sys.modules, torch=double):
            array, wanted = weightfs._dtypes.to_torch("bfloat16", numpy.zeros(3, "uint16"))
            self.assertEqual((array.dtype, wanted), (numpy.int16, "torch.bfloat16"))
            array, wanted = weightfs._dtypes.to_torch("float8_e4m3fn", numpy.zeros(3, "uint8"))
            self.assertEqual((array.dtype, wanted), (numpy.uint8, "torch.float8_e4m3fn"))
            self.assertEqual(weightfs._dtypes.to_torch("float32", numpy.arange(3, dtype=">f4")).array.dtype, numpy.float32)
            self.assertEqual(weightfs._dtypes.to_torch("int4", numpy.zeros(3, "int8")).array.dtype, numpy.int8)
            with self.assertRaisesRegex(weightfs.Refused, "float8_e5m2"):
                weightfs._dtypes.to_torch("float8_e5m2", numpy.zeros(3, "uint8"))

    def test_writing_a_tensor_of_torch_does_not_change_the_file(self):
        source = self.sample()
        tensor = self.open(source).tensor("encoder/weight")
        double = types.SimpleNamespace(from_numpy=lambda array: array, __version__="double")
        with unittest.mock.patch.dict(sys.modules, torch=double):
            array = tensor.torch()
        array[:] = 7
        self.assertEqual(tensor.numpy()[0, 1], 1)
        self.assertEqual(self.open(source)["encoder/weight"][0, 1], 1)


class Types(PythonTestCase):
    def written(self):
        """A tensor of each type that NumPy lacks, with the bytes 0 to 255 or two of each, and its name."""
        names = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
        data = {name: bytes(range(256)) if name != "bfloat16" else numpy.arange(256, dtype="<u2").tobytes() for name in names}
        return [Tensor(name, name, (16, 16), data[name]) for name in names]

    @needs_module("ml_dtypes")
    def test_types_of_ml_dtypes_have_the_numbers_of_the_program(self):
        import ml_dtypes
        model = self.open(self.sample(tensors=self.written()))
        for name in model:
            with self.subTest(name):
                array = model[name]
                self.assertEqual(array.dtype, numpy.dtype(getattr(ml_dtypes, name)))
                self.assertFalse(array.flags.writeable)
                expected = model.tensor(name).float32()
                numpy.testing.assert_array_equal(array.astype("float32"), expected)
                numpy.testing.assert_array_equal(model.tensor(name)[3:5].astype("float32"), expected[3:5])
                numpy.testing.assert_array_equal(numpy.asarray(model.tensor(name), "float32"), expected)

    def test_array_protocol_has_a_type_and_a_copy(self):
        tensor = self.open(self.sample()).tensor("encoder/weight")
        self.assertTrue(numpy.shares_memory(numpy.asarray(tensor), tensor.numpy()))
        self.assertEqual(numpy.asarray(tensor, "float64").dtype, numpy.float64)
        copy = numpy.array(tensor)
        copy[:] = 7
        self.assertEqual(tensor.numpy()[0, 1], 1)

    @needs_module("safetensors")
    def test_arrays_are_those_of_the_reader_of_safetensors(self):
        from safetensors.numpy import load_file, save_file
        random = numpy.random.default_rng(1)
        arrays = {f"layer.{name}": random.integers(0, 100, (3, 4)).astype(name)
                  for name in ("bool", "uint8", "int8", "int16", "uint16", "float16", "int32", "uint32", "float32", "float64",
                               "int64", "uint64")}
        save_file(arrays, self.path("m.safetensors"), {"made": "by safetensors"})
        model, loaded = self.open(self.path("m.safetensors")), load_file(self.path("m.safetensors"))
        self.assertEqual(set(model), set(loaded))
        for name, array in loaded.items():
            numpy.testing.assert_array_equal(model[name], array, strict=True)
        self.assertEqual(model.metadata["metadata"]["made"], "by safetensors")

    @needs_module("gguf")
    def test_numbers_are_those_of_the_package_gguf(self):
        import gguf
        random = numpy.random.default_rng(2)
        for dtype, block_bytes in (("q8_0", 34), ("q4_0", 18), ("q4_1", 20), ("q5_0", 22), ("q5_1", 24)):
            with self.subTest(dtype):
                blocks = random.integers(0, 256, (64, block_bytes), numpy.uint8)
                blocks[:, (1, 3) if dtype.endswith("1") else (1,)] &= 0x3F  # no scale is NaN or infinite
                path = self.path(f"{dtype}.gguf")
                containers.write_gguf(path, [Tensor("w", dtype, (8, 256), blocks.tobytes())])
                found = self.open(path).tensor("w").float32()
                kind = getattr(gguf.GGMLQuantizationType, dtype.upper())
                numpy.testing.assert_array_equal(found, gguf.dequantize(blocks.reshape(8, -1), kind).reshape(8, 256))


if __name__ == "__main__":
    unittest.main()
