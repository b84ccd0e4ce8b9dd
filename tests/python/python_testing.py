"""Shared by the tests of the Python module: the module of this tree with the program under test, and samples."""
import gc
import io
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(ROOT, "python")
for folder in (PACKAGE, os.path.join(ROOT, "tests", "mount"), os.path.join(ROOT, "tests", "support")):
    sys.path.insert(0, folder)

from mounting import LIMIT_S, WEIGHTFS, TestCase, processes_of, run, until  # noqa: E402
from every_format import write_models  # noqa: E402

os.environ["WEIGHTFS"] = WEIGHTFS  # the program that the module runs

import numpy  # noqa: E402
import weightfs  # noqa: E402


class PythonTestCase(TestCase):
    """A test with a directory, which also has the sockets of servers, and which leaves none of them."""

    def setUp(self):
        super().setUp()
        self.sockets = self.path("sockets")
        os.mkdir(self.sockets)
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = self.sockets
        self.addCleanup(self.check_debris, before)

    def check_debris(self, before):
        os.environ.pop("XDG_RUNTIME_DIR")
        if before is not None:
            os.environ["XDG_RUNTIME_DIR"] = before
        until(lambda: not os.listdir(self.sockets), lambda: f"left behind: {os.listdir(self.sockets)}")

    def open(self, source, **options):
        """A model that is closed when the test ends."""
        model = weightfs.open(source, **options)
        self.addCleanup(model.close)
        return model

    def use_fsspec(self):
        """Registers the file system, whose models end when the test ends."""
        import fsspec
        fsspec.register_implementation("weightfs", "weightfs.fsspec_filesystem.WeightfsFileSystem", clobber=True)
        filesystem = fsspec.get_filesystem_class("weightfs")

        def forget():
            filesystem.clear_instance_cache()
            gc.collect()  # tracebacks of libraries keep open files in cycles
        self.addCleanup(forget)


def write_corpus(folder):
    """Writes a small model of each format, and returns their names."""
    return sorted(write_models(folder))


def tensors_of(source):
    """The tensors of a model by tensors.json of the program."""
    return json.loads(run("cat", "--", source, "tensors.json").stdout)["tensors"]


def arrays_of(source, *views):
    """What the program serves in each of these directories, npy or float32: arrays by the paths of their tensors below tensors/."""
    listed = subprocess.run([WEIGHTFS, "ls", "-R", "--", source], capture_output=True, timeout=LIMIT_S).stdout.decode()
    present, folder = set(), ""
    for line in listed.splitlines():
        if line.endswith(":"):
            folder = "" if line == ".:" else line[:-1] + "/"
        elif line:
            present.add(folder + line)
    paths = [each["path"] for each in tensors_of(source)]
    files = [(view, path) for view in views for path in paths if f"{view}/{path}.npy" in present]
    found = {view: {} for view in views}
    if files:
        done = subprocess.run([WEIGHTFS, "cat", "--", source, *(f"{view}/{path}.npy" for view, path in files)],
                              capture_output=True, timeout=LIMIT_S)
        assert done.returncode in (0, 5), (source, done.stderr)
        content = io.BytesIO(done.stdout)
        for view, path in files:
            found[view][path] = numpy.lib.format.read_array(content, allow_pickle=False)
    return [found[view] for view in views]


def maps():
    """The files that this process has mapped."""
    with open("/proc/self/maps") as file:
        return {line.split(maxsplit=5)[5].strip() for line in file if len(line.split(maxsplit=5)) == 6}


__all__ = ["LIMIT_S", "PACKAGE", "PythonTestCase", "ROOT", "WEIGHTFS", "arrays_of", "maps", "numpy", "os",
           "processes_of", "run", "sys", "tensors_of", "until", "weightfs", "write_corpus"]
