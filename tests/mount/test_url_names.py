"""Names in URLs, and of files beside them: what is requested, and the name in the tree. Also how ETags are compared."""
import json
import os
import re
import subprocess
import unittest

from fetching import FetchTestCase
from mounting import run
from scripted_server import CONDITIONS, Server, correct
from test_urls import KIB, tensors
import stores

NORMALISED = {"%2e%2E": (8, 14), "%2e": (8, 14),
              "a%2fb.safetensors": (8, 23)}  # the versions of libcurl that were seen to change them


def curl_version():
    printed = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"libcurl/(\d+)\.(\d+)", printed).groups()))


class UrlNamesTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        self.web = Server(self)
        self.tensors = tensors(4, 200 * KIB)  # each is requested whole
        self.data = stores.safetensors(self.path("."), self.tensors)

    def requested(self):
        return {request.path for request in self.web.requests()}

    def assert_readable(self, point, tensor=2):
        self.assertEqual(self.read_whole(point, "tensors", f"layer.{tensor}"), self.tensors[tensor].data)


class Names(UrlNamesTestCase):
    # The name in the URL, the path of the request, and the file in the tree, where control characters and invalid UTF-8 are
    # encoded.
    NAMES = (
        ("a b.safetensors", "/a%20b.safetensors", "a b.safetensors"),
        ("a%20b.safetensors", "/a%20b.safetensors", "a b.safetensors"),
        ("a+b.safetensors", "/a+b.safetensors", "a+b.safetensors"),
        ("%61.safetensors", "/%61.safetensors", "a.safetensors"),
        ("a%00b.safetensors", "/a%00b.safetensors", "a%00b.safetensors"),
        ("a%2Fb.safetensors", "/a%2Fb.safetensors", "model"),
        ("a%2fb.safetensors", "/a%2fb.safetensors", "model"),
        ("..%2F..%2Fpasswd", "/..%2F..%2Fpasswd", "model"),
        ("%2e%2E", "/%2e%2E", "model"),
        ("%2e", "/%2e", "model"),
        ("a/b/../../c.safetensors", "/c.safetensors", "c.safetensors"),
        ("../../d.safetensors", "/d.safetensors", "d.safetensors"),
        ("a%0Ab", "/a%0Ab", "a%0Ab"),
        ("a%", "/a%", "a%"),
        ("a%zz%2", "/a%zz%2", "a%zz%2"),
        ("%C3%A4.safetensors", "/%C3%A4.safetensors", "ä.safetensors"),
        ("%FF.safetensors", "/%FF.safetensors", "%FF.safetensors"),
    )

    def test_name_is_requested_as_written_and_decoded_in_the_tree(self):
        for i, (name, path, file) in enumerate(self.NAMES):
            with self.subTest(name):
                if name in NORMALISED and curl_version() >= NORMALISED[name]:
                    self.skipTest("this libcurl resolves %2e in a path, or writes escapes in upper case")
                self.web.received.clear()
                self.web.serve(path[1:], correct(self.data))
                point = self.mount(self.web.url(name), at=f"mnt{i}")
                self.assertEqual(self.requested(), {path})
                self.assertEqual(os.listdir(os.path.join(point, "files")), [file])
                self.assert_readable(point)


class Shards(UrlNamesTestCase):
    def index(self, shard):
        self.web.received.clear()
        text = json.dumps({"weight_map": {f"layer.{i}": shard for i in range(4)}}).encode()
        return self.web.serve("deep/folder/model.safetensors.index.json", correct(text))

    def test_name_of_a_shard_is_requested_below_the_folder(self):
        for i, (shard, path) in enumerate({
                "a b.safetensors": "a%20b.safetensors",
                "a%2Fb.safetensors": "a%252Fb.safetensors",
                "a?b#c": "a%3Fb%23c",
                "a:b": "a%3Ab",
                "http:x.safetensors": "http%3Ax.safetensors"}.items()):
            with self.subTest(shard):
                url = self.index(shard)
                self.web.serve(f"deep/folder/{path}", correct(self.data))
                point = self.mount(url, at=f"mnt{i}")
                self.assert_readable(point)
                self.assertEqual(self.requested(), {"/deep/folder/model.safetensors.index.json", f"/deep/folder/{path}"})

    # A server that decodes a path twice would leave the folder.
    def test_name_that_decodes_to_dots_is_refused_without_a_request(self):
        for shard in ("%2e%2e", "%2e", "%252e%252e", "%2e%2e%2fup.safetensors"):
            with self.subTest(shard):
                done = run("info", self.index(shard))
                self.assertEqual((done.returncode, len(self.web.received)), (4, 1), done.stderr)
                self.assertIn(": refused: it belongs to no source of this command", done.stderr)

    def test_path_instead_of_a_name_is_refused_without_a_request(self):
        for shard in ("", ".", "..", "a\0b", "../up.safetensors", "below/down.safetensors", "below/../../up.safetensors",
                      "/up.safetensors", "//127.0.0.1/up.safetensors", "http://127.0.0.1/up.safetensors"):
            with self.subTest(shard):
                done = run("info", self.index(shard))
                self.assertEqual(done.returncode, 4)
                self.assertRegex(done.stderr, r"^weightfs: .*not a file name.*\n$")
                self.assertEqual(self.requested(), {"/deep/folder/model.safetensors.index.json"})


class Tags(UrlNamesTestCase):
    """docker-registry quotes the ETag of a cached blob only."""

    def quoting(self, *quoted):
        """Correct responses whose ETag is quoted or not; the last one is repeated."""
        tag = "sha256:" + stores.sha256(self.data)
        return self.web.serve("m.safetensors", *(correct(self.data, ignores=CONDITIONS, ETag=f'"{tag}"' if is_quoted else tag)
                                                 for is_quoted in quoted))

    def test_quotes_do_not_change_the_version(self):
        for i, quoted in enumerate(((False, True, False, True), (True, False, True, False))):
            with self.subTest(quoted):
                point = self.mount("--no-cache", self.quoting(*quoted), at=f"mnt{i}")
                for tensor in (3, 1, 0):
                    self.assert_readable(point, tensor)

    def test_blocks_are_used_again_with_and_without_quotes(self):
        self.assert_readable(self.mount(self.quoting(False), at="one"))
        self.web.received.clear()
        self.assert_readable(self.mount(self.quoting(True), at="two"))
        self.assertEqual(len(self.web.received), 1)


if __name__ == "__main__":
    unittest.main()
