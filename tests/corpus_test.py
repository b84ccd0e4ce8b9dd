"""The corpora of the fuzz targets: inputs that may be replaced are in one archive for each target, findings are files, and
fuzz/found.txt says of each what it found.
"""
import hashlib
import os
import unittest
import zipfile

FUZZ = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuzz")
CORPUS = os.path.join(FUZZ, "corpus")


def digits(data):
    return hashlib.sha256(data).hexdigest()[:12]


class Corpora(unittest.TestCase):
    def test_findings_are_listed_and_named_by_their_content(self):
        with open(os.path.join(FUZZ, "found.txt"), encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("  ", 1) for line in file]
        self.assertEqual(lines, sorted(lines))
        self.assertEqual([line for line in lines if len(line) != 2 or not line[1]], [])
        files = {os.path.join(target, name) for target in os.listdir(CORPUS) for name in os.listdir(os.path.join(CORPUS, target))
                 if name.startswith("found-")}
        self.assertEqual({name for name, _ in lines}, files)
        for name in sorted(files):
            with open(os.path.join(CORPUS, name), "rb") as file:
                self.assertEqual(name.rpartition("-")[2], digits(file.read()))

    def test_archives_are_the_only_place_of_replaceable_inputs(self):
        inputs = 0
        for target in sorted(os.listdir(CORPUS)):
            names = os.listdir(os.path.join(CORPUS, target))
            self.assertEqual([name for name in names if name.startswith("covers-")], [], target)
            if "covers.zip" not in names:
                continue
            with zipfile.ZipFile(os.path.join(CORPUS, target, "covers.zip")) as archive:
                members = archive.namelist()
                self.assertEqual(members, sorted(set(members)), target)
                for name in members:
                    self.assertEqual(name, f"covers-{digits(archive.read(name))}", target)
                inputs += len(members)
        self.assertGreater(inputs, 1000)


if __name__ == "__main__":
    unittest.main()
