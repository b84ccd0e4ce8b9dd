"""Hostile names in what weightfs prints: no character that steers a terminal, is invisible, or changes the direction of writing
reaches a person's screen, and none of the first kind is in JSON. semantics 27.2"""
import json
import os
import re
import unittest

from mounting import MountTestCase, Tensor, on_terminal, run

CONTROLS = "\x1b[31m\x07\x7f\x80\x9b1m\x9f"
INVISIBLE = "\xad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff\U000e0061"
NAME = f"w{CONTROLS}{INVISIBLE}x"
STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
HIDDEN = re.compile(f"[{INVISIBLE}]")


class Printed(MountTestCase):
    def setUp(self):
        super().setUp()
        folder = self.path(f"d{CONTROLS}{INVISIBLE}")
        os.makedirs(folder)
        self.one = self.hostile(os.path.join(folder, "one.safetensors"), b"\0\0\0\1")
        self.two = self.hostile(os.path.join(folder, "two.safetensors"), b"\0\0\0\2")
        self.folder = folder

    def hostile(self, path, data):
        return self.sample(path, [Tensor(NAME, "uint8", (4, ), data), Tensor(f"{NAME}/b", "uint8", (4, ), data)],
                           metadata={NAME: NAME, "general.name": NAME})

    def check(self, text):
        text = text.replace("\r\n", "\n")
        for pattern in (STEERS, HIDDEN):
            found = pattern.search(text)
            self.assertIsNone(found, found and repr(text[max(found.start() - 80, 0):found.end() + 20]))

    def test_screens_and_errors_have_neither_controls_nor_invisible_characters(self):
        missing = os.path.join(self.folder, "missing")
        commands = [(["info", self.one], 0), (["info", "--tensors", "--metadata", self.one], 0), (["info", self.folder], 0),
                    (["ls", self.one], 0), (["ls", "-l", self.one, "tensors"], 0), (["ls", "-R", self.one], 0),
                    (["verify", self.one], 0), (["stats", self.one], 0), (["diff", self.one, self.two], 1),
                    (["diff", "--stat", self.one, self.two], 1), (["fetch", self.one], 0),
                    (["info", "--duplicates", self.folder], 0), (["info", missing], 3), (["cat", self.one, NAME + "y"], 3)]
        for argv, status in commands:
            with self.subTest(argv=argv[0:2]):
                for of in ("stdout", "stderr"):
                    done = on_terminal(*argv, status=status, of=of, columns=120)
                    self.check(done)

    def test_mounts_and_logs(self):
        point = self.mount(self.folder, at=f"m{INVISIBLE}")
        self.check(on_terminal("mounts"))
        self.check(run("mounts", "--json").stdout.replace(INVISIBLE, ""))
        for name in ("log", "metrics"):
            with open(os.path.join(point, ".weightfs", name)) as file:
                self.check(file.read())
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            text = file.read()
        self.assertIsNone(STEERS.search(text))
        self.assertEqual(json.loads(text)["source"], self.folder)
        with open(os.path.join(point, ".weightfs", "metrics")) as file:
            labels = re.findall(r'"((?:[^"\\]|\\.)*)"', file.read())
        self.assertEqual({escape for label in labels for escape in re.findall(r"\\.", label)} - {"\\\\", '\\"', "\\n"}, set())
        self.unmount(point)

    def test_json_has_controls_escaped_and_their_values(self):
        for argv in (["info", "--json", self.one], ["info", "--json", "--tensors", self.one], ["stats", "--json", self.one],
                     ["diff", "--json", self.one, self.two], ["ls", "--json", "-R", self.one],
                     ["cat", self.one, "metadata.json"], ["cat", self.one, "tensors.json"]):
            with self.subTest(argv=argv[:2]):
                text = run(*argv).stdout
                self.assertIsNone(STEERS.search(text))
                self.assertTrue(argv[0] == "ls" or repr(NAME)[1:-1] in str(json.loads(text)), text)


if __name__ == "__main__":
    unittest.main()
