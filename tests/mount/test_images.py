"""Content that was decoded from one file is never shown for another one, however equal their inodes are. semantics 10.3"""
import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import re
import shutil
import struct
import subprocess
import tarfile
import unittest
import zipfile

from mounting import LIMIT_S, TestCase, run

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
TIME = "20260102030405"
UUID = "01234567-89ab-cdef-0123-456789abcdef"


def command(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, PATH=PATH)).stdout


def tar(text, name="readme.txt"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return out.getvalue()


def zipped(text, name):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def npy(text):
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text)},), }}"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + text


def gz(data, level=0):
    return gzip.compress(data, level, mtime=0)


KINDS = {  # of containers whose content is decoded: the name, the bytes for a text, where it is shown
    "stored": ("m.tar.gz", lambda text: gz(tar(text)), "files/readme.txt"),
    "deflated": ("m.tar.gz", lambda text: gz(tar(text), 6), "files/readme.txt"),
    "bzip2": ("m.tar.bz2", lambda text: bz2.compress(tar(text)), "files/readme.txt"),
    "xz": ("m.tar.xz", lambda text: lzma.compress(tar(text)), "files/readme.txt"),
    "zip": ("m.zip", lambda text: zipped(text, "readme.txt"), "files/readme.txt"),
    "npz": ("m.npz", lambda text: zipped(npy(text), "w.npy"), "tensors/w"),
    "best": ("m.tgz", lambda text: gz(tar(text), 9), "files/readme.txt"),
}
BASE = bytes(random.Random(1).choices(b"abcdefgh", k=300_000))
LETTERS = b"abcdefghijklmnop"
PLACES = {  # where two texts differ: by one letter, or in all letters
    "everywhere": lambda letter: bytes((byte - 97) ^ (letter - 97) | 96 for byte in BASE),
    "begin": lambda letter: bytes([letter]) + BASE,
    "middle": lambda letter: BASE[:150_000] + bytes([letter]) + BASE[150_000:],
    "end": lambda letter: BASE + bytes([letter]),
}


def pair(build, text):
    """Two texts and their containers, of equal size; None if there are none."""
    by_size = {}
    for letter in LETTERS:
        made = build(text(letter))
        other = by_size.setdefault(len(made), (text(letter), made))
        if other[1] != made:
            return other, (text(letter), made)
    return None


@unittest.skipIf(os.geteuid() != 0, "only root can mount images")
class Images(TestCase):
    """Two images of ext4, whose author has chosen everything in them, on one loop device."""

    def setUp(self):
        super().setUp()
        if not all(shutil.which(program, path=PATH) for program in ("mkfs.ext4", "debugfs", "losetup")):
            self.skipTest("no mkfs.ext4, debugfs or losetup here")

    def image(self, name, containers):
        """An image with these containers, with times that do not depend on them."""
        os.makedirs(self.path(name), exist_ok=True)
        fields = ""
        for file, (_, data, _) in containers.items():
            self.write(f"{name}/{file}", data)
            fields += "".join(f"set_inode_field /{file} {time} {TIME}\nset_inode_field /{file} {time}_extra 0\n"
                              for time in ("mtime", "ctime", "atime", "crtime"))
        made = self.path(f"{name}.img")
        command("mkfs.ext4", "-q", "-F", "-U", UUID, "-d", self.path(name), made, "64M")
        self.write("fields", fields.encode())
        command("debugfs", "-w", "-f", self.path("fields"), made)
        return made

    @contextlib.contextmanager
    def mounted(self, image):
        point = self.path("point")
        os.makedirs(point, exist_ok=True)
        try:
            command("mount", "-o", "loop,ro", image, point)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no loop devices here: {error.stderr.strip()}")
        try:
            yield point
        finally:
            command("umount", point)

    def check(self, image, containers, known):
        """Reads each container; how many have a status that is in `known`, to which this adds."""
        equal = 0
        with self.mounted(image) as point:
            for file, (text, _, member) in containers.items():
                with self.subTest(file):
                    path = os.path.join(point, file)
                    found = os.stat(path)
                    status = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                    equal += known.setdefault(path, status) == status
                    done = run("cat", path, member)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(done.stdout == text.decode(), "the content of another image")
        return equal

    def test_cached_content_of_another_image_is_not_shown(self):
        evil, good, known = {}, {}, {}
        for place, text in PLACES.items():
            for kind, (file, build, member) in KINDS.items():
                if found := pair(build, text):
                    for containers, (shown, data) in zip((evil, good), found):
                        containers[f"{place}-{kind}-{file}"] = (shown, data, member)
        self.assertGreaterEqual(len(evil), 15)
        one, two = self.image("one", evil), self.image("two", good)
        self.check(one, evil, known)
        self.assertRegex(run("cache", "du").stdout, re.compile("[1-9]"), "nothing is cached")
        if self.check(two, good, known) < len(good):
            self.skipTest(f"the files can be told apart by stat(2): {known}")
        self.check(one, evil, known)


if __name__ == "__main__":
    unittest.main()
