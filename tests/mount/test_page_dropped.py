"""A file of this machine that is dropped into the page of `weightfs open`, or chosen: the server asks the page for its bytes."""
import base64
import contextlib
import json
import os
import socket
import struct
import subprocess
import unittest
from urllib.parse import parse_qs, quote, urlsplit

from browsing import needs_chromium
from devtools import page
from http_serving import HttpServer
from mounting import LIMIT_S, WEIGHTFS, Tensor, TestCase, eventually, numbers
from page_testing import ASSETS
from processes import peak_mb_of
import tiny_llamas
import tiny_repository

# Directories that are dropped are listed when a test calls release().
LISTS_WHEN_RELEASED = """{
  const released = new Promise((resolve) => (window.release = resolve));
  const entryOf = DataTransferItem.prototype.webkitGetAsEntry;
  DataTransferItem.prototype.webkitGetAsEntry = function () {
    const entry = entryOf.call(this);
    if (!entry.isDirectory) return entry;
    const reader = entry.createReader();
    const readEntries = async (take, fail) => {
      window.isListing = true;
      await released;
      reader.readEntries((found) => {
        take(found);
        window.isListed = found.length === 0;
      }, fail);
    };
    return { name: entry.name, isDirectory: true, createReader: () => ({ readEntries }) };
  };
}"""

KEY = base64.b64encode(b"0123456789abcdef").decode()


class Opened(TestCase):
    """`weightfs open` of a small model. `self.token` is that of its URL."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("own"))
        os.mkdir(self.path("elsewhere"))  # what the sandbox of the server does not show
        self.errors = open(self.path("errors"), "w+")
        self.addCleanup(self.errors.close)
        self.process = subprocess.Popen([WEIGHTFS, "open", "--no-browser", *ASSETS, self.sample("own/first.safetensors")],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.addCleanup(self.end)
        self.url = self.process.stdout.readline().strip()
        parts = urlsplit(self.url)
        self.host, self.port = parts.hostname, parts.port
        self.token = parse_qs(parts.fragment)["token"][0]

    def end(self):
        self.process.terminate()
        self.process.wait(LIMIT_S)
        self.process.stdout.close()
        self.assertEqual(self.process.returncode, 0)

    def get(self, path):
        """The status and the body of an answer, which is JSON."""
        run = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {self.token}",
                              "-H", "Accept: application/json", f"http://{self.host}:{self.port}{path}"],
                             capture_output=True, text=True, timeout=LIMIT_S, check=True)
        body, _, status = run.stdout.rpartition("\n")
        return int(status), json.loads(body)

    def model(self, path):
        return self.get(f"/.weightfs/api/v1/model?model={quote(path)}")


@needs_chromium
class InTheBrowser(Opened):
    def setUp(self):
        super().setUp()
        self.shown = self.enterContext(page(self))
        self.shown.open(self.url)
        self.shown.wait_for("document.querySelector('main h1') && document.body.innerText.includes('Open…')")
        self.shown.settle()

    def drop(self, *paths):
        """Drags files from the desktop into the middle of the page."""
        data = {"items": [], "files": list(paths), "dragOperationsMask": 1}
        at = {"x": 600, "y": 400, "data": data}
        for kind in ("dragEnter", "dragOver"):
            self.shown.send("Input.dispatchDragEvent", type=kind, **at)
        self.shown.wait_for_text("Drop a model to open it")
        for kind in ("dragOver", "drop"):
            self.shown.send("Input.dispatchDragEvent", type=kind, **at)

    def values(self, tensor):
        """The first numbers of a tensor of the model that the page shows."""
        model = parse_qs(urlsplit(self.shown.evaluate("location.href")).query)["model"][0]
        _, answer = self.get(f"/.weightfs/api/v1/tensors?model={quote(model)}&q={tensor}")
        index = answer["tensors"][0]["index"]
        status, values = self.get(f"/.weightfs/api/v1/values?model={quote(model)}&t={index}&format=json")
        self.assertEqual(status, 200, values)
        return values

    def no_problems(self):
        self.shown.settle()
        self.assertEqual(self.shown.problems, [])

    def test_dropped_file_is_shown_with_its_numbers(self):
        path = self.sample("elsewhere/second.safetensors", [Tensor("dropped", "float32", (2, 3), numbers("f", 6))])
        self.drop(path)
        self.shown.wait_for("document.querySelector('.head .title').innerText.includes('second')")
        self.shown.click("Tensors")
        self.shown.wait_for_text("dropped")
        self.shown.click("dropped")
        self.shown.wait_for_text("2 × 3")
        self.no_problems()

    def test_chosen_file_is_opened(self):
        path = self.sample("elsewhere/second.gguf", [Tensor("chosen", "float32", (4,), numbers("f", 4))], "gguf")
        document = self.shown.send("DOM.getDocument")["root"]["nodeId"]
        node = self.shown.send("DOM.querySelector", nodeId=document, selector="input[type=file]")["nodeId"]
        self.shown.send("DOM.setFileInputFiles", nodeId=node, files=[path])
        self.shown.wait_for("location.search.includes('dropped')")
        self.shown.wait_for("document.querySelector('.head .title').innerText.includes('second')")
        self.no_problems()

    def test_folder_is_one_model(self):
        folder = self.path("elsewhere/llama")
        tiny_repository.write(tiny_llamas.llama3(), folder)
        self.drop(folder)
        self.shown.wait_for_text("language model (llama)")
        self.assertIn(".weightfs/dropped/1/llama", parse_qs(urlsplit(self.shown.evaluate("location.href")).query)["model"])
        self.no_problems()

    def test_several_files_are_a_directory(self):
        paths = [self.sample(f"elsewhere/{name}.safetensors", [Tensor(name, "float32", (2,), numbers("f", 2))])
                 for name in ("one", "two")]
        self.drop(*paths)
        self.shown.wait_for_text("two.safetensors")
        self.assertEqual(self.shown.evaluate("document.querySelector('.path').innerText"), "all / 2 files")
        self.shown.click("two.safetensors")
        self.shown.wait_for("document.querySelector('.head .models')?.value.endsWith('two.safetensors')")
        self.shown.settle()
        self.shown.click("Compare")
        self.shown.wait_for_text("Choose the model B")
        self.shown.click("one.safetensors")
        self.shown.wait_for("document.querySelector('.compare-choice select')")
        self.no_problems()

    def test_later_drop_is_the_one_that_is_shown(self):
        os.mkdir(self.path("elsewhere/slow"))
        paths = [self.sample(f"elsewhere/{name}.safetensors", [Tensor(name[-3:], "float32", (2,), numbers("f", 2))])
                 for name in ("slow/one", "two")]
        self.shown.evaluate(LISTS_WHEN_RELEASED)
        self.drop(self.path("elsewhere/slow"))
        self.shown.wait_for("window.isListing")
        self.drop(paths[1])
        self.shown.wait_for("document.querySelector('.head .title').innerText.includes('two')")
        shown = self.shown.evaluate("location.search")
        self.shown.evaluate("window.release()")
        self.shown.wait_for("window.isListed")
        self.no_problems()
        self.assertEqual(self.shown.evaluate("location.search"), shown)
        self.assertIn("nothing was dropped", json.dumps(self.model(".weightfs/dropped/2/slow")), "the first drop is not offered")

    def test_file_of_many_gigabytes_takes_little_memory(self):
        size = 6 << 30
        path = self.path("elsewhere/large.safetensors")
        header = json.dumps({"zeros": {"dtype": "U8", "shape": [size - 8], "data_offsets": [0, size - 8]},
                             "last": {"dtype": "F32", "shape": [2], "data_offsets": [size - 8, size]}}).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            file.seek(size - 8, os.SEEK_CUR)
            file.write(struct.pack("<2f", 1.25, -2.5))
        self.drop(path)
        self.shown.wait_for("document.querySelector('.head .title').innerText.includes('large')")
        self.assertIn("-2.5", json.dumps(self.values("last")))
        self.assertLess(peak_mb_of(self.process.pid), 300)

    def test_file_that_is_no_model_has_its_sentence(self):
        path = self.path("elsewhere/notes.txt")
        with open(path, "w") as file:
            file.write("not a model\n")
        self.drop(path)
        self.shown.wait_for_text("notes.txt")
        self.shown.wait_for("document.querySelector('main [role=alert]')")

    def test_file_is_gone_with_its_page(self):
        self.drop(self.sample("elsewhere/second.safetensors", [Tensor("a", "float32", (1 << 20,), numbers("f", 1 << 20))]))
        self.shown.wait_for("document.querySelector('.head .title').innerText.includes('second')")
        self.shown.open("about:blank")
        status, answer = self.get("/.weightfs/api/v1/statistics?model=.weightfs/dropped/1/second.safetensors&t=0")
        self.assertEqual(status, 500, answer)
        self.assertIn("drop the file again", answer["error"])
        self.assertEqual(self.model("")[0], 200)


def frame(opcode, data):
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    return bytes([0x80 | opcode]) + size + b"\0\0\0\0" + data


class Connection:
    """A WebSocket without a browser, which may send anything."""

    def __init__(self, test, path, origin=None, **fields):
        self.socket = socket.create_connection((test.host, test.port), timeout=LIMIT_S)
        test.addCleanup(self.socket.close)
        server = f"{test.host}:{test.port}"
        fields = {"Host": server, "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": KEY, "Origin": origin or f"http://{server}", **fields}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.received = b""
        head = self.until(b"\r\n\r\n")
        self.status = int(head.split()[1])

    def more(self):
        piece = self.socket.recv(65536)
        if not piece:
            raise EOFError
        self.received += piece

    def until(self, end):
        while end not in self.received:
            self.more()
        head, _, self.received = self.received.partition(end)
        return head

    def message(self):
        """The JSON of the next message of the server, which are short."""
        while len(self.received) < 4:
            self.more()
        size, start = self.received[1], 2
        if size == 126:
            size, start = struct.unpack(">H", self.received[2:4])[0], 4
        while len(self.received) < start + size:
            self.more()
        text, self.received = self.received[start:start + size], self.received[start + size:]
        return json.loads(text)

    def send(self, opcode, data):
        self.socket.sendall(frame(opcode, data))

    def offer(self, *files):
        self.send(1, json.dumps({"files": [dict(zip(("path", "size"), each)) for each in files]}).encode())
        return self.message()

    def ending(self):
        """The number in the close frame of the server, which then closes the connection."""
        with contextlib.suppress(EOFError):
            while True:
                self.more()
        has_reason = self.received[-4:-2] == b"\x88\x02"
        return struct.unpack(">H", self.received[-2:])[0] if has_reason else None


class OfAnyClient(Opened):
    def setUp(self):
        super().setUp()
        self.drop = self.get("/.weightfs/api/v1/models")[1]["drop"]

    def test_only_the_page_with_the_token_may_offer_files(self):
        self.assertEqual(Connection(self, "/.weightfs/drop").status, 401)
        self.assertEqual(Connection(self, "/.weightfs/drop?ticket=0").status, 401)
        self.assertEqual(Connection(self, self.drop, origin="http://evil.example").status, 403)
        self.assertEqual(Connection(self, self.drop, Host="evil.example").status, 421)
        self.assertEqual(Connection(self, self.drop, Upgrade="h2c").status, 426)
        self.assertEqual(Connection(self, self.drop).status, 101)

    def test_model_is_read_through_the_page(self):
        with open(self.sample("elsewhere/second.safetensors", [Tensor("a", "float32", (2,), numbers("f", 2))]), "rb") as file:
            content = file.read()
        connection = Connection(self, self.drop)
        path = connection.offer(("second.safetensors", len(content)))["path"]
        self.assertEqual(path, ".weightfs/dropped/1/second.safetensors")
        reading = subprocess.Popen(["curl", "-sS", "-H", f"Authorization: Bearer {self.token}",
                                    f"http://{self.host}:{self.port}/{path}/tensors/a"], stdout=subprocess.PIPE)
        self.addCleanup(reading.communicate)
        connection.socket.settimeout(0.2)
        while reading.poll() is None:
            with contextlib.suppress(TimeoutError):
                asked = connection.message()
                self.assertLessEqual(asked["offset"] + asked["size"], len(content))
                part = content[asked["offset"]:asked["offset"] + asked["size"]]
                connection.send(2, struct.pack("<I", asked["read"]) + part)
        self.assertEqual(reading.stdout.read(), content[-8:])

    def test_answers_to_no_request_end_the_connection(self):
        for name, opcode, data in (("number", 2, struct.pack("<I", 7) + b"x"), ("zero", 2, struct.pack("<I", 0) + b"x"),
                                   ("short", 2, b"x"), ("failure", 1, b'{"failed":7}'),
                                   ("text", 1, b"{}"), ("list", 1, b"[]"), ("no JSON", 1, b"{")):
            with self.subTest(name):
                connection = Connection(self, self.drop)
                self.assertIn("path", connection.offer(("m.gguf", 64)))
                connection.send(opcode, data)
                self.assertEqual(connection.ending(), 1002)
        self.assertEqual(self.model("")[0], 200)

    def test_lists_that_are_none_are_refused(self):
        for data in (b"{", b"[]", b"{}", b'{"files":[]}', b'{"files":[7]}', b'{"files":[{"path":"a"}]}', b'{"files":[{"size":1}]}',
                     b'{"files":[{"path":"../a","size":1}]}', b'{"files":[{"path":"a","size":-1}]}', b"\xff"):
            with self.subTest(data):
                connection = Connection(self, self.drop)
                connection.send(1, data)
                self.assertIn("error", connection.message())

    def test_wrong_lengths_fail_the_read_only(self):
        for name, answer in (("more", b"x" * 300), ("none", b"")):
            with self.subTest(name):
                connection = Connection(self, self.drop)
                path = connection.offer(("m.gguf", 64))["path"]
                reading = subprocess.Popen(["curl", "-s", "-H", f"Authorization: Bearer {self.token}",
                                            f"http://{self.host}:{self.port}/.weightfs/api/v1/model?model={path}"],
                                           stdout=subprocess.PIPE)
                self.addCleanup(reading.communicate)
                connection.socket.settimeout(0.2)
                while reading.poll() is None:
                    with contextlib.suppress(TimeoutError):
                        connection.send(2, struct.pack("<I", connection.message()["read"]) + answer)
                self.assertIn(b"m.gguf", reading.stdout.read())
        self.assertEqual(self.model("")[0], 200)

    def test_message_that_is_too_long_ends_the_connection(self):
        connection = Connection(self, self.drop)
        connection.socket.sendall(b"\x81\xff" + struct.pack(">Q", 5 << 20) + b"\0\0\0\0")
        self.assertEqual(connection.ending(), 1009)

    def test_page_that_closes_is_answered(self):
        connection = Connection(self, self.drop)
        connection.send(8, struct.pack(">H", 1001))
        self.assertEqual(connection.ending(), 1000)

    def test_list_of_too_many_files_is_refused(self):
        connection = Connection(self, self.drop)
        connection.socket.sendall(self.long_frame(json.dumps({"files": [{"path": f"{i}", "size": 1} for i in range(10_001)]})))
        self.assertIn("more than 10000 files", connection.message()["error"])

    @staticmethod
    def long_frame(text):
        return b"\x81\xff" + struct.pack(">Q", len(text)) + b"\0\0\0\0" + text.encode()

    def test_client_that_does_not_read_grows_no_memory(self):
        connection = Connection(self, self.drop)
        connection.socket.settimeout(1)
        pings = 4000 * frame(9, bytes(125))
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200 << 20:
                sent += connection.socket.send(pings)
        self.assertLess(sent, 200 << 20, "the server went on to receive")
        self.assertLess(peak_mb_of(self.process.pid), 100)
        self.assertEqual(self.model("")[0], 200)

    def test_connections_that_ended_keep_no_descriptors(self):
        descriptors = f"/proc/{self.process.pid}/fd"
        before = len(os.listdir(descriptors))
        for number in range(1, 21):
            connection = Connection(self, self.drop)
            self.assertEqual(connection.offer(("m.gguf", 64))["path"], f".weightfs/dropped/{number}/m.gguf")
            connection.socket.close()
        self.assertTrue(eventually(lambda: len(os.listdir(descriptors)) <= before + 2, LIMIT_S))
        self.assertIn("drop the file again", self.model(".weightfs/dropped/1/m.gguf")[1]["error"])

    def test_number_of_connections_is_limited(self):
        connections = [Connection(self, self.drop) for _ in range(32)]
        self.assertEqual({each.status for each in connections}, {101})
        self.assertEqual(Connection(self, self.drop).status, 503)
        connections[0].socket.close()
        self.assertTrue(eventually(lambda: Connection(self, self.drop).status == 101, LIMIT_S))

    def test_nothing_else_that_is_not_listed_is_a_model(self):
        for path in (".weightfs", ".weightfs/dropped", ".weightfs/dropped/1", ".weightfs/dropped/1/m",
                     ".weightfs/dropped/999"):
            with self.subTest(path):
                self.assertIn(self.model(path)[0], (404, 500))


class Serving(TestCase):
    def test_serve_takes_no_files(self):
        with HttpServer(self.sample(), folder=self.tmp) as server:
            self.host, self.port = server.host, server.port
            self.assertIsNone(json.loads(server.get("/.weightfs/api/v1/models").body)["drop"])
            self.assertEqual(Connection(self, "/.weightfs/drop").status, 404)


if __name__ == "__main__":
    unittest.main()
