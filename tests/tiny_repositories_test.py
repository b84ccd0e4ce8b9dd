"""The tiny repositories are those whose GGUF files golden/hub_gguf.json describes: other bytes would compare with nothing."""
import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
import tiny_repositories  # noqa: E402

TYPES = ("auto", "f32", "f16", "bf16", "q8_0")


class TinyRepositories(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(HERE, "mount", "golden", "hub_gguf.json")) as file:
            cls.known = json.load(file)

    def test_each_has_a_known_file_of_every_type(self):
        expected = {f"{name} {kind}" for name in tiny_repositories.BUILDERS for kind in TYPES}
        self.assertEqual(set(self.known), expected)

    def test_each_is_written_with_the_bytes_that_were_converted(self):
        with tempfile.TemporaryDirectory() as parent:
            for name in tiny_repositories.BUILDERS:
                with self.subTest(name):
                    found = tiny_repositories.digest(tiny_repositories.write(parent, name))
                    self.assertEqual(found, self.known[f"{name} auto"]["repository_sha256"])


if __name__ == "__main__":
    unittest.main()
