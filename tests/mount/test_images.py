"""Content that was decoded from one file is never shown for another one, however equal their inodes are. semantics 10.3"""
import gzip
import io
import os
import re
import shutil
import subprocess
import tarfile
import unittest

from mounting import LIMIT_S, Tensor, TestCase, run

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
TIME = "20260102030405"
UUID = "01234567-89ab-cdef-0123-456789abcdef"


def command(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, PATH=PATH)).stdout


@unittest.skipIf(os.geteuid() != 0, "only root can mount images")
class Images(TestCase):
    """Two images of ext4, whose author has chosen everything in them, on one loop device."""

    def setUp(self):
        super().setUp()
        if not all(shutil.which(program, path=PATH) for program in ("mkfs.ext4", "debugfs", "losetup")):
            self.skipTest("no mkfs.ext4, debugfs or losetup here")

    def image(self, name, text):
        """An image with a model.tar.gz of a size and times that do not depend on `text`."""
        self.sample("model.safetensors", [Tensor("w", "uint8", (4, ), b"abcd")])
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for file, data in (("model.safetensors", self.read("model.safetensors")), ("readme.txt", text)):
                member = tarfile.TarInfo(file)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        os.makedirs(self.path(name), exist_ok=True)
        self.write(f"{name}/model.tar.gz", gzip.compress(raw.getvalue(), compresslevel=0, mtime=0))
        made = self.path(f"{name}.img")
        command("mkfs.ext4", "-q", "-F", "-U", UUID, "-d", self.path(name), made, "16M")
        fields = "".join(f"set_inode_field /model.tar.gz {time} {TIME}\nset_inode_field /model.tar.gz {time}_extra 0\n"
                         for time in ("mtime", "ctime", "atime", "crtime"))
        self.write("fields", fields.encode())
        command("debugfs", "-w", "-f", self.path("fields"), made)
        return made

    def show(self, image):
        """What is in the image's archive, and the status of the archive."""
        point = self.path("point")
        os.makedirs(point, exist_ok=True)
        try:
            command("mount", "-o", "loop,ro", image, point)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no loop devices here: {error.stderr.strip()}")
        try:
            file = os.path.join(point, "model.tar.gz")
            found = os.stat(file)
            done = run("cat", file, "files/readme.txt")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        finally:
            command("umount", point)

    def test_cached_content_of_another_image_is_not_shown(self):
        one, two = self.image("one", b"EVIL" * 500_000), self.image("two", b"GOOD" * 500_000)
        shown, before = self.show(one)
        self.assertEqual(shown, "EVIL" * 500_000)
        self.assertRegex(run("cache", "du").stdout, re.compile("[1-9]"), "nothing is cached")
        shown, after = self.show(two)
        if after != before:
            self.skipTest(f"the files can be told apart by stat(2): {before} {after}")
        self.assertEqual(shown, "GOOD" * 500_000)
        shown, _ = self.show(one)
        self.assertEqual(shown, "EVIL" * 500_000)


if __name__ == "__main__":
    unittest.main()
