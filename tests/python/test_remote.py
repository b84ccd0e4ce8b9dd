"""Models on servers, read by the module: on the Hugging Face Hub, in an object store, in a registry and on a web server. The values
are those that were published, and the bytes that the servers sent are counted."""
import importlib.util
import os
import struct
import time
import unittest
import unittest.mock

from python_testing import PythonTestCase, numpy, weightfs
from fetching import FetchTestCase, closed_port
from servers import Nginx, Registry, needs
from tensors import Noise, Tensor
from test_hub import TOKEN, HubTestCase
from test_oci import WEIGHT
from test_processes import kill_server_of
from test_s3 import S3TestCase
import artifacts

BLOCK = 16 * 1024  # bytes are requested in blocks
SMALL = 128 * 1024  # answers that are not bytes of the file: lists, manifests
ROWS, COLUMNS = 2048, 1024
GROUP = struct.pack("<e", 0.5) + bytes(range(32))  # 32 elements of q8_0


def large_tensors():
    """Three of float32, 8 MiB each, and one of q8_0, 2.1 MiB."""
    size = 4 * ROWS * COLUMNS
    floats = [Tensor(name, "float32", (ROWS, COLUMNS), bytes(Noise(size + 8 * number))[8 * number:])
              for number, name in enumerate(("a", "b", "c"))]
    return [*floats, Tensor("q", "q8_0", (ROWS, COLUMNS), GROUP * (ROWS * COLUMNS // 32))]


class RemoteModel:
    """What holds for a file on any server. A class has `publish(bytes)`, which returns the source, and `sent()`, the bytes of all
    responses so far."""

    def setUp(self):
        super().setUp()
        self.tensors = {tensor.name: tensor for tensor in large_tensors()}
        local = self.sample("local.gguf", list(self.tensors.values()), "gguf")
        self.content = self.read("local.gguf")
        os.remove(local)
        self.source = self.publish(self.content)

    def moved(self, read):
        """What a function returns, and the bytes that were sent meanwhile."""
        before = self.sent()
        return read(), self.sent() - before

    def rows(self, name, first, last):
        """The bytes of these rows, as they are stored."""
        size = len(self.tensors[name].data) // ROWS
        return self.tensors[name].data[first * size:last * size]

    def test_all_tensors_have_their_values_and_move_once(self):
        model = self.open(self.source)
        self.assertEqual(list(model), list(self.tensors))
        arrays, moved = self.moved(lambda: {tensor.key: tensor.raw() for tensor in model.tensors()})
        for name, array in arrays.items():
            self.assertEqual(array.tobytes(), self.tensors[name].data, name)
        self.assertLessEqual(moved, 1.05 * len(self.content))
        array, again = self.moved(lambda: model["b"])
        self.assertEqual((array.tobytes(), again), (self.tensors["b"].data, 0))

    def test_tensor_moves_only_its_bytes(self):
        model = self.open(self.source)
        array, moved = self.moved(lambda: model["b"])
        self.assertEqual(array.tobytes(), self.tensors["b"].data)
        self.assertFalse(model.tensor("b").is_mapped)
        self.assertLessEqual(moved, 1.05 * array.nbytes)
        self.assertGreaterEqual(moved, array.nbytes)

    def test_opening_moves_the_header_only(self):
        _, moved = self.moved(lambda: self.open(self.source))
        self.assertLessEqual(moved, SMALL)

    def test_slice_moves_only_its_rows_and_their_blocks(self):
        model = self.open(self.source)
        for first, last in ((1000, 1010), (0, 10), (1500, 1900), (500, 501)):
            with self.subTest(rows=(first, last)):
                wanted = self.rows("b", first, last)
                rows, moved = self.moved(lambda: model.tensor("b")[first:last])
                self.assertEqual(rows.tobytes(), wanted)
                self.assertLessEqual(moved, len(wanted) + 2 * BLOCK)
        _, again = self.moved(lambda: model.tensor("b")[1002:1008, 3])
        self.assertEqual(again, 0)

    def test_rows_of_a_quantised_tensor_move_their_groups(self):
        model = self.open(self.source)
        rows, moved = self.moved(lambda: model.tensor("q")[1000:1100])
        self.assertEqual((rows.shape, rows.dtype), ((100, COLUMNS), numpy.float32))
        self.assertEqual(rows.reshape(-1, 32).tolist(), [[each / 2 for each in range(32)]] * (100 * COLUMNS // 32))
        self.assertLessEqual(moved, len(self.rows("q", 1000, 1100)) + 2 * BLOCK)
        raw, moved = self.moved(lambda: model.tensor("q").raw())
        self.assertEqual(raw.tobytes(), self.tensors["q"].data)
        self.assertLessEqual(moved, 1.05 * raw.nbytes)

    def test_server_that_is_killed_is_started_again_for_the_same_version(self):
        model = self.open(self.source)
        path, = (path for path in model.files if path.endswith(".gguf"))
        arrays = {name: model.tensor(name).raw().tobytes() for name in ("a", "b")}
        metadata, first = model.metadata, model._origin.reader._child
        kill_server_of(model)
        for name in self.tensors:
            self.assertEqual(model.tensor(name).raw().tobytes(), arrays.get(name, self.tensors[name].data), name)
        with model.open_file(path) as file:
            self.assertEqual(file.read(), self.content)
        self.assertEqual(model.metadata, metadata)
        self.assertIsNot(model._origin.reader._child, first)
        kill_server_of(model)  # all bytes are cached and verified now
        self.assertEqual(model.tensor("c").raw().tobytes(), self.tensors["c"].data)

    def test_end_of_a_file_moves_a_few_blocks(self):
        model = self.open(self.source)
        path, = (path for path in model.files if path.endswith(".gguf"))

        def last_bytes():
            with model.open_file(path) as file:
                file.seek(-4, os.SEEK_END)
                return file.read(), file.tell()
        found, moved = self.moved(last_bytes)
        self.assertEqual(found, (self.content[-4:], len(self.content)))
        self.assertLessEqual(moved, SMALL)

    def test_file_that_is_read_in_order_moves_once_by_few_requests(self):
        model = self.open(self.source)
        path, = (path for path in model.files if path.endswith(".gguf"))
        reader, requests = model._origin.reader, []

        def read_into(*request, original=reader.read_into):
            requests.append(request)
            original(*request)
        with unittest.mock.patch.object(reader, "read_into", read_into), model.open_file(path) as file:
            parts, moved = self.moved(lambda: list(iter(lambda: file.read(100_000), b"")))
        self.assertEqual(b"".join(parts), self.content)
        self.assertLessEqual(moved, 1.01 * len(self.content))
        self.assertLessEqual(len(requests), 10)


class WebServer(RemoteModel, FetchTestCase, PythonTestCase):
    """nginx."""

    @needs("nginx")
    def setUp(self):
        super().setUp()

    def publish(self, content):
        self.server = Nginx(self)
        return self.server.publish("model.gguf", content)

    def sent(self):
        return sum(request.bytes for request in self.server.requests() if request.method == "GET" and request.status in (200, 206))

    def test_server_that_stops_is_unavailable_and_what_was_read_stays(self):
        model = self.open(self.source, retries=0, timeout=5)
        model["a"]
        self.server.stop()
        self.assertEqual(model["a"].tobytes(), self.tensors["a"].data)
        with self.assertRaisesRegex(weightfs.Unavailable, "127.0.0.1"):
            model["b"]
        with self.assertRaises(weightfs.Unavailable):
            weightfs.open(f"http://127.0.0.1:{closed_port()}/model.gguf", retries=0, wait_for_network=0)

    def test_missing_file_is_not_found(self):
        with self.assertRaisesRegex(weightfs.NotFound, "404|not found"):
            weightfs.open(self.server.url("other.gguf"))

    def test_replaced_file_fails_the_next_read(self):
        model = self.open(self.source)
        model["a"]
        self.server.publish("new.gguf", self.content + b"more")
        os.rename(os.path.join(self.server.content, "new.gguf"), os.path.join(self.server.content, "model.gguf"))
        with self.assertRaises(weightfs.Error):
            model["c"]

    def test_file_that_is_replaced_while_the_server_is_down_is_changed(self):
        """Another file with the same tensors: their names, sizes and places are equal."""
        model = self.open(self.source)
        model["a"]
        kill_server_of(model)
        self.server.publish("new.gguf", self.content[:-1] + b"x")
        os.utime(os.path.join(self.server.content, "new.gguf"), (1, 1))  # entity tags of nginx have sizes and seconds
        os.rename(os.path.join(self.server.content, "new.gguf"), os.path.join(self.server.content, "model.gguf"))
        for _ in range(2):
            self.assertRaises(weightfs.Changed, model.tensor("c").raw)


class Artifact(RemoteModel, FetchTestCase, PythonTestCase):
    """An artifact in docker-registry."""

    @needs("docker-registry")
    def setUp(self):
        super().setUp()

    def publish(self, content):
        self.registry = Registry(self)
        return artifacts.modelpack().add(WEIGHT, content, "model.gguf").push(self.registry, "ai/tiny", "latest")

    def sent(self):
        """The registry logs a response after the client has its bytes, so this waits until nothing more is logged."""
        before, now = None, self.logged()
        while now != before:
            time.sleep(0.3)
            before, now = now, self.logged()
        return now

    def logged(self):
        return sum(request.bytes for request in self.registry.pulled() if request.method == "GET" and request.status in (200, 206))


class Object(RemoteModel, S3TestCase, PythonTestCase):
    """An object in a store that verifies signatures: the server of the module has the keys of the environment."""

    def publish(self, content):
        self.login()
        return self.store.put("models", "tiny/model.gguf", content)

    def sent(self):
        return self.store.sent()

    def test_replaced_object_fails_the_next_read(self):
        model = self.open(self.source)
        model["a"]
        self.store.put("models", "tiny/model.gguf", bytes(len(self.content)))
        with self.assertRaises(weightfs.Error):
            model["c"]

    def test_keys_that_are_refused_are_named(self):
        os.environ["AWS_SECRET_ACCESS_KEY"] = "other"
        with self.assertRaisesRegex(weightfs.Refused, "SignatureDoesNotMatch"):
            weightfs.open(self.source)


class Repository(RemoteModel, HubTestCase, PythonTestCase):
    """A repository of the Hub, whose files come from another server."""

    def publish(self, content):
        self.repository = self.hub.add("org/demo", {"model.gguf": content, "config.json": b"{}"})
        return "hf://org/demo"

    def sent(self):
        return self.hub.bytes()

    def test_files_of_the_repository_are_those_of_the_model(self):
        model = self.open(self.source)
        self.assertEqual(model.files, ["files/config.json", "files/model.gguf"])
        with model.open_file("files/config.json") as file:
            self.assertEqual(file.read(), b"{}")
        self.assertEqual(model.metadata["repository"], "org/demo")

    @unittest.skipUnless(importlib.util.find_spec("fsspec"), "python3-fsspec is not installed")
    def test_fsspec_reads_ranges_of_a_repository(self):
        import fsspec
        self.use_fsspec()
        url = "weightfs://hf://org/demo!/files"
        with fsspec.open(f"{url}/config.json") as file:
            self.assertEqual(file.read(), b"{}")
        files, path = fsspec.core.url_to_fs(f"{url}/model.gguf")
        size = len(self.content)
        part, moved = self.moved(lambda: files.cat_file(path, size - 300_000, size - 100_000))
        self.assertEqual(part, self.content[-300_000:-100_000])
        self.assertLessEqual(moved, len(part) + SMALL)

    def test_repository_that_is_replaced_while_the_server_is_down_is_changed(self):
        model = self.open(self.source)
        model.tensor("a").raw()
        kill_server_of(model)
        self.repository.commit({"model.gguf": self.content[:-1] + b"x"})
        self.assertRaises(weightfs.Changed, model.tensor("c").raw)

    def test_tensor_of_a_shard_moves_only_its_bytes(self):
        _, written = self.publish_sharded()
        model = self.open("hf://org/sharded")
        tensor = written[7]
        array, moved = self.moved(lambda: model[tensor.name])
        self.assertEqual(array.tobytes(), tensor.data)
        self.assertLessEqual(moved, 1.05 * array.nbytes)

    def test_private_repository_needs_the_token_of_the_environment(self):
        self.repository.private = True
        self.hub.tokens[TOKEN] = ["org/demo"]
        with self.assertRaisesRegex(weightfs.Error, "HF_TOKEN|token"):
            weightfs.open(self.source)
        os.environ["HF_TOKEN"] = TOKEN
        self.assertEqual(self.open(self.source).tensor("q").raw().tobytes(), self.tensors["q"].data)

    def test_missing_repository_is_not_found(self):
        with self.assertRaises(weightfs.NotFound):
            weightfs.open("hf://org/missing")

    def test_revision_is_a_model_of_its_own(self):
        commit = self.repository.revisions["main"]
        self.repository.commit({"model.gguf": self.gguf(2)})
        self.assertEqual(len(self.open(self.source)), 2)
        self.assertEqual(list(self.open(f"{self.source}@{commit}")), list(self.tensors))

    def test_bytes_that_differ_from_their_digest_are_no_values(self):
        content = self.gguf(3)  # small: verified before its first byte
        file = self.hub.add("org/small", {"model.gguf": content}).files()["model.gguf"]
        file.sent = content[:-1] + bytes([content[-1] ^ 1])
        with self.assertRaises(weightfs.Mismatch):
            with weightfs.open("hf://org/small") as model:
                for name in model:
                    model[name]


if __name__ == "__main__":
    unittest.main()
