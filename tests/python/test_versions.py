"""Versions of a model are never mixed in one opened model; requests that fail are sent again a few times, or not at all."""
import http.client
import io
import json
import os
import signal
import struct
import unittest
import unittest.mock
import zipfile

from python_testing import PythonTestCase, numpy, run, until, weightfs, write_corpus
from mounting import MountTestCase, sample_tensors
from test_processes import kill_server_of
from tensors import Tensor
import demo
import weightfs._server

QUANTISED = "blk.0.attn_q.weight"  # needs the server
OTHER = "blk.0.attn_k.weight"


def write_npz(path, value):
    """Compressed arrays: the server has them. All files have the same size."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a", "b"):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), npy_of(numpy.full(1000, value, "<i4")), zipfile.ZIP_DEFLATED)


def npy_of(array):
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


class Files(PythonTestCase):
    def write_xgboost(self, name, value):
        """Its arrays are decoded when the model is opened, so nothing in the index identifies their values."""
        os.makedirs(self.path("models"), exist_ok=True)
        write_corpus(self.path("models"))
        content = self.read("models", "XgboostJson.model")
        return self.write(name, content.replace(b'"split_conditions":[0.5', b'"split_conditions":[%.1f' % value))

    def test_archive_that_is_replaced_before_its_first_read_is_changed(self):
        write_npz(self.path("m.npz"), 1)
        model = self.open(self.path("m.npz"))
        write_npz(self.path("new"), 2)
        os.rename(self.path("new"), self.path("m.npz"))
        for _ in range(2):
            with self.assertRaises(weightfs.Changed):
                model["a"]
        self.assertEqual(os.listdir(self.sockets), [])

    def test_archive_that_is_replaced_after_the_server_was_killed_is_changed(self):
        write_npz(self.path("m.npz"), 1)
        model = self.open(self.path("m.npz"))
        self.assertEqual(model["a"].max(), 1)
        kill_server_of(model)
        write_npz(self.path("new"), 2)
        os.rename(self.path("new"), self.path("m.npz"))
        with self.assertRaises(weightfs.Changed):
            model["b"]

    def test_values_that_no_index_has_are_of_one_version(self):
        source = self.write_xgboost("m.json", 0.5)
        model = self.open(source)
        name, = (name for name in model if name.endswith("split_conditions") or name.endswith("threshold"))
        again = self.open(source)
        self.assertEqual(float(again[name][0]), 0.5)
        kill_server_of(again)
        os.rename(self.write_xgboost("new", 0.7), source)
        for each in (model, again):
            with self.assertRaises(weightfs.Changed):
                each[name]
        self.assertEqual(round(float(self.open(source)[name][0]), 3), 0.7)

    def test_file_that_is_written_in_place_gives_no_further_arrays(self):
        source = self.sample()
        model = self.open(source)
        model["bias"]
        content = self.read("model.safetensors")
        with open(source, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x63")
        self.assertNotEqual(self.read("model.safetensors"), content)
        for read in (lambda: model["bytes"], lambda: model.tensor("bytes").raw(), lambda: model.tensor("bytes")._array("npy", "c"),
                     lambda: model.tensor("bytes")[1:]):
            self.assertRaisesRegex(weightfs.Changed, "written", read)

    def test_new_mode_or_name_of_an_archive_is_no_change(self):
        write_npz(self.path("m.npz"), 1)
        model = self.open(self.path("m.npz"))
        os.chmod(self.path("m.npz"), 0o600)
        os.link(self.path("m.npz"), self.path("link"))
        model.check()

    def test_listing_is_that_of_the_version_that_was_opened(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        model = self.open(source)
        names = model.list("tensors")
        self.sample("new", demo.ggml_layers(2), "gguf")
        os.rename(self.path("new"), source)
        server = weightfs._server.Server(source, {})
        new = server.list("tensors")
        server.close()
        self.assertGreater(len(new), len(names))
        os.kill(model._origin.reader._child.process.pid, signal.SIGHUP)  # lists the source again

        def is_changed():
            try:
                self.assertEqual(model.list("tensors"), names)
                return False
            except weightfs.Changed:
                return True
        until(is_changed, "the listing is not that of the new version")

    def test_metadata_named_like_the_index_does_not_hide_it(self):
        metadata = {**demo.gguf_metadata(), "local_files": "x", "v": "y", "tensor_list": "z"}
        model = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf", metadata))
        self.assertEqual(model[QUANTISED].shape, (32, 32))
        self.assertEqual(model.metadata["metadata"]["local_files"], "x")

    def test_directory_of_models_is_refused_by_the_server_too(self):
        for name in ("one", "two"):
            self.sample(f"{name}.safetensors")
        with self.assertRaisesRegex(weightfs.Refused, "open one of them"):
            weightfs._server.Server(self.tmp, {}).start()


class Mounts(MountTestCase, PythonTestCase):
    def mounted_directory(self):
        """A model in a mounted directory, of which a tensor was read, and the source of the model."""
        os.mkdir(self.path("models"))
        self.sample("models/one.safetensors")
        source = self.sample("models/two.safetensors")
        point = self.mount(self.path("models"))
        model = self.open(f"{point}/two.safetensors")
        self.assertEqual(model["bias"].tolist(), [0, 1, 2, 3])
        return model, source, f"{point}/two.safetensors"

    def replace(self, source):
        self.sample("new", [tensor._replace(data=bytes(len(tensor.data))) for tensor in sample_tensors()])
        os.rename(self.path("new"), source)

    def assert_changed(self, model):
        tensor = model.tensor("encoder/weight")
        for read in (tensor.numpy, tensor.raw, tensor.float32, lambda: tensor[1:], lambda: model.metadata, lambda: model.files,
                     lambda: model.list("npy"), lambda: model.open_file("metadata.json"), model.check):
            self.assertRaises(weightfs.Changed, read)

    def test_model_of_a_mounted_directory_that_is_replaced_is_changed(self):
        model, source, path = self.mounted_directory()
        file = model.open_file("tensors/encoder/weight")
        before = os.stat(path).st_ino
        model.check()
        self.replace(source)
        until(lambda: os.path.exists(path) and os.stat(path).st_ino != before, "the mount does not follow the directory")
        self.assert_changed(model)
        self.assertRaises(weightfs.Changed, file.read)
        self.assertEqual(self.open(path)["encoder/weight"].sum(), 0)

    def test_model_of_a_mounted_directory_that_is_removed_is_changed(self):
        model, source, path = self.mounted_directory()
        os.remove(source)
        until(lambda: not os.path.exists(path), "the mount does not follow the directory")
        self.assert_changed(model)

    def test_refreshed_mount_has_another_version(self):
        source = self.sample()
        point = self.mount(source)
        model = self.open(point)
        model["bias"]
        self.replace(source)
        self.assertEqual(run("refresh", point).returncode, 0)
        self.assert_changed(model)

    def test_another_mount_at_the_same_place_is_another_version(self):
        source = self.sample()
        point = self.mount(source)
        model = self.open(point)
        model["bias"]
        self.unmount(point)
        until(lambda: not os.path.exists(point), "the mount point is not removed")
        self.assert_changed(model)
        self.replace(source)
        self.mount(source)
        self.assert_changed(model)

    def test_model_of_a_mount_does_not_keep_it_in_use(self):
        model, _, _ = self.mounted_directory()
        with model.open_file("metadata.json"):
            self.assertEqual(run("umount", self.path("mnt")).returncode, 0)
            self.assertRaises(weightfs.Changed, model.check)

    def test_notebook_shows_no_tensor_of_another_version(self):
        model, source, path = self.mounted_directory()
        before, started = os.stat(path).st_ino, []

        class Replaced(weightfs._server.Server):
            def read(server, *arguments, **options):
                if not started:
                    started.append(self.replace(source))
                    until(lambda: os.path.exists(path) and os.stat(path).st_ino != before, "the mount does not follow")
                return super().read(*arguments, **options)
        with unittest.mock.patch("weightfs._api.Server", Replaced):
            text = model.tensor("encoder/weight")._repr_html_()
        self.assertIn("changed", text)
        self.assertNotIn("<table", text)

    def test_refused_tensor_of_a_mount_is_refused(self):
        os.mkdir(self.path("models"))
        write_corpus(self.path("models"))
        with self.assertWarnsRegex(weightfs.IncompleteWarning, r"mnt: 1 of \d+ tensors refused; the model is incomplete: "):
            model = self.open(self.mount(self.path("models", "Ort.model"), lacks="short"))
        tensor, = (tensor for tensor in model.tensors() if tensor.refused)
        for read in (tensor.numpy, tensor.raw, tensor.float32):
            self.assertRaisesRegex(weightfs.Refused, "short", read)

    def test_mounted_directory_of_models_is_no_model(self):
        self.mounted_directory()
        self.assertRaisesRegex(weightfs.NotFound, "mnt: .*open one of them", weightfs.open, self.path("mnt"))

    def test_directory_of_a_mount_is_not_a_file(self):
        model, _, _ = self.mounted_directory()
        self.assertRaisesRegex(weightfs.Error, "a directory", model.open_file, "files")


class Retries(PythonTestCase):
    def setUp(self):
        super().setUp()
        self.model = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf"))
        self.expected = self.model[QUANTISED].tobytes()
        self.reader = self.model._origin.reader

    def cut(self, method, count):
        """Ends the bodies of the next responses early; returns the calls."""
        original, calls = getattr(http.client.HTTPResponse, method), []

        def cut(response, *arguments):
            calls.append(response)
            if len(calls) > count:
                return original(response, *arguments)
            if method == "read":
                raise http.client.IncompleteRead(b"")
            return 0
        patch = unittest.mock.patch.object(http.client.HTTPResponse, method, cut)
        patch.start()
        self.addCleanup(patch.stop)
        return calls

    def test_response_that_is_cut_is_continued(self):
        self.cut("readinto", 2)
        self.assertEqual(self.model[QUANTISED].tobytes(), self.expected)

    def test_text_that_is_cut_is_requested_again(self):
        self.cut("read", 1)
        self.assertIn("files/q.gguf", self.model.files)

    def test_responses_that_are_always_cut_are_unavailable(self):
        for method, read in (("readinto", lambda: self.model[QUANTISED]), ("read", lambda: self.model.files)):
            with self.subTest(method):
                calls = self.cut(method, 1_000)
                self.assertRaisesRegex(weightfs.Unavailable, "before its end", read)
                self.assertLessEqual(len(calls), 10)
                unittest.mock.patch.stopall()

    def test_responses_of_one_byte_are_not_continued_without_end(self):
        calls = []

        def readinto(response, view):
            calls.append(response)
            if len(calls) % 2 == 0:
                return 0
            view[:1] = b"x"
            return 1
        with unittest.mock.patch.object(http.client.HTTPResponse, "readinto", readinto):
            self.assertRaises(weightfs.Unavailable, self.reader.read_into, f"tensors/{QUANTISED}", 0, memoryview(bytearray(1000)))
        self.assertLess(len(calls), 20)

    def test_server_that_dies_during_a_response_is_started_again(self):
        original, killed = http.client.HTTPResponse.readinto, []

        def readinto(response, view):
            if not killed:
                killed.append(self.reader._child.process.pid)
                kill_server_of(self.model)
                response._close_conn()
                return 0
            return original(response, view)
        with unittest.mock.patch.object(http.client.HTTPResponse, "readinto", readinto):
            self.assertEqual(self.model[QUANTISED].tobytes(), self.expected)
        self.assertNotEqual([self.reader._child.process.pid], killed)

    def test_error_of_which_the_text_is_cut_has_its_kind(self):
        original = http.client.HTTPResponse.read

        def read(response, *arguments):
            return original(response, *arguments)[:5] if response.status == 404 else original(response, *arguments)
        with unittest.mock.patch.object(http.client.HTTPResponse, "read", read):
            self.assertRaises(weightfs.NotFound, self.model.list, "nothing")

    def test_server_that_dies_always_is_an_error(self):
        from weightfs._connection import Pool
        starts = []

        def refuse(pool, target, fields, method="GET"):
            if target.endswith("attn_k.weight.npy"):
                starts.append(target)
                raise ConnectionResetError("gone")
            return original(pool, target, fields, method)
        original = Pool.request
        with unittest.mock.patch.object(Pool, "request", refuse):
            self.assertRaisesRegex(weightfs.Error, "not running", lambda: self.model[OTHER])
        self.assertEqual(len(starts), 2)


class Mappings(PythonTestCase):
    def test_models_have_the_methods_of_a_mapping(self):
        model = self.open(self.sample())
        names = [tensor.name for tensor in sample_tensors()]
        self.assertEqual((list(model), list(model.keys()), list(reversed(model)), len(model)), (names, names, names[::-1], 5))
        self.assertEqual([array.tobytes() for array in model.values()], [tensor.data for tensor in sample_tensors()])
        self.assertEqual({name: array.shape for name, array in model.items()}["bias"], (4,))
        self.assertEqual(dict(model).keys(), model.keys())
        self.assertEqual((model.get("bias").tolist(), model.get("x"), model.get("x", 5)), ([0, 1, 2, 3], None, 5))
        self.assertEqual(("bias" in model, "x" in model, 5 in model), (True, False, False))
        with self.assertRaises(KeyError):
            model["x"]

    def test_get_does_not_hide_why_a_tensor_has_no_array(self):
        os.mkdir(self.path("models"))
        write_corpus(self.path("models"))
        model = self.open(self.path("models", "Tflite.model"))
        self.assertIn("sparse", model)
        self.assertRaisesRegex(weightfs.NotFound, "no array", model.get, "sparse", 5)
        model.close()
        self.assertRaisesRegex(weightfs.Error, "closed", model.get, "sparse", 5)

    def test_private_mappings_keep_no_descriptor_and_end_with_their_arrays(self):
        tensors = [Tensor(f"t{number}", "float32", (1500,), struct.pack("<f", number) * 1500) for number in range(50)]
        source = self.sample(tensors=tensors)
        model = self.open(source)
        before = len(os.listdir("/proc/self/fd"))
        arrays = [model.tensor(tensor.name)._array("npy", "c") for tensor in tensors]  # as torch() has it
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual([(float(array[0]), float(array[-1])) for array in arrays], [(number, number) for number in range(50)])
        arrays[3][:] = 99
        self.assertEqual((arrays[2].max(), arrays[4].max(), model["t3"].max()), (2, 4, 3))
        model.close()
        self.assertEqual(arrays[49].max(), 49)
        self.assertGreater(self.count_of_mappings(source), 1)
        del arrays
        self.assertEqual(self.count_of_mappings(source), 0)

    def count_of_mappings(self, path):
        with open("/proc/self/maps") as file:
            return sum(line.rstrip().endswith(path) for line in file)

    def test_files_that_are_closed_are_not_read(self):
        file = self.open(self.sample()).open_file("metadata.json")
        self.assertRaises(ValueError, file.seek, 0, 7)
        self.assertEqual(len(json.loads(file.read())["format"]), 11)
        file.close()
        for use in (file.read, file.tell, lambda: file.seek(0), lambda: file.readinto(bytearray(1)), file.readline):
            self.assertRaises(ValueError, use)


if __name__ == "__main__":
    unittest.main()
