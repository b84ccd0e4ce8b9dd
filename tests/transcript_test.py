"""Runs each ```console block of README.md and docs/examples.md, and those of docs/remote.md and docs/serve.md, in a shell;
compares the output.

A line `…` stands for any lines. Values that depend on the machine are normalized (SAME).
"""
import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import tty
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "support"), os.path.join(HERE, "mount")]
import demo  # noqa: E402
import stores  # noqa: E402
from s3_server import S3Server  # noqa: E402
from servers import Registry, path_of  # noqa: E402

WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 60
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END = "\x1e"
WIDTH = 120

# Color sequences.
COLOUR = re.compile(r"\x1b\[[\d;]*m")

# A progress bar, drawn any number of times, then erased.
PROGRESS = re.compile(r"(\r\x1b\[K\[[#.]+\][^\r]*)*\r\x1b\[K")

# Dates and owners in listings.
SAME = ((re.compile(r"(?<= )\d{4}-\d\d-\d\d \d\d:\d\d(?= )"), "DATE"),
        (re.compile(r"(?<= )[A-Z][a-z]{2} [ \d]\d (\d\d:\d\d| \d{4})(?= )"), "DATE"), (re.compile(r"(?<= 1 )\w+ +\w+(?= )"),
                                                                                       "OWNER"))


def blocks(page="README.md"):
    """For each block of a page: [(command, the lines under it)]."""
    with open(os.path.join(HERE, "..", page)) as file:
        text = file.read()
    for block in BLOCK.findall(text):
        commands = []
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
        yield commands


def same(line):
    for pattern, name in SAME:
        line = pattern.sub(name, line)
    return line


def matches(shown, printed):
    pattern = "".join("(.*\n)*?" if line == "…" else re.escape(same(line)) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(same(line) + "\n" for line in printed.splitlines()))


def on_a_terminal(script, **kwargs):
    """The output of a bash script on a terminal, and its standard error."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    tty.setraw(its)
    with tempfile.TemporaryFile("w+") as problems:
        process = subprocess.Popen(["bash", "--norc", "-c", script], stdin=subprocess.DEVNULL, stdout=its, stderr=problems,
                                   **kwargs)
        os.close(its)
        out = b""
        try:
            while data := os.read(ours, 65536):
                out += data
        except OSError:  # EIO: closed by all writers
            pass
        os.close(ours)
        process.wait(LIMIT_S)
        problems.seek(0)
        return out.decode(), problems.read()


class Readme(unittest.TestCase):
    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="weightfs-test-")
        self.addCleanup(shutil.rmtree, self.tmp)
        self.home = self.path("home")
        os.makedirs(self.path("bin"))
        os.symlink(WEIGHTFS, self.path("bin", "weightfs"))
        demo.write_demo(self.home)
        with open(self.path("home", "demo.gguf"), "rb") as file:
            self.package = stores.Package()
            self.package.add("model", file.read())
        self.package.add("template", stores.TEMPLATE).add("license", stores.LICENSE).add("params", stores.as_go(stores.PARAMETERS))
        self.names = {self.home: "/home/you"}
        self.addCleanup(self.unmount)

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    def environment(self):
        return {
            "PATH": f"{self.path('bin')}:/usr/bin:/bin", "HOME": self.home, "WEIGHTFS_CACHE": self.path("cache"),
            "LC_ALL": "C.UTF-8", "TERM": "dumb",
            **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        }

    def unmount(self):
        if os.path.ismount(self.path("home", "mnt")):
            subprocess.run([WEIGHTFS, "umount", self.path("home", "mnt")], check=True, timeout=LIMIT_S)

    def keep(self):
        """Creates a store with the model."""
        stores.Store(self.path("home", ".ollama", "models")).put_package("demo/latest", self.package)

    def serve(self):
        """Starts a registry with the model, in place of the one in docs/examples.md."""
        if not path_of("docker-registry"):
            self.skipTest("no docker-registry here")
        registry = Registry(self)
        for data in self.package.blobs.values():
            registry.push_blob("library/demo", data)
        registry.push_manifest("library/demo", "latest", self.package.manifest())
        self.names[f"localhost:{registry.port}"] = "localhost:5000"

    def run_block(self, commands):
        """The output of each command, with the names used in the pages."""
        script = "".join(f"{command}\nprintf '{END}'\n" for command, _ in commands)
        for ours, its in self.names.items():
            script = script.replace(its, ours)
        out, problems = on_a_terminal(script, cwd=self.home, env=self.environment())
        self.unmount()
        self.assertEqual(problems, "")
        for ours, its in self.names.items():
            out = out.replace(ours, its)
        return [part.expandtabs() for part in COLOUR.sub("", PROGRESS.sub("", out)).split(END)[:-1]]

    def compare(self, commands):
        printed = self.run_block(commands)
        self.assertEqual(len(printed), len(commands))
        for (command, shown), text in zip(commands, printed):
            with self.subTest(command):
                if not matches(shown, text):
                    self.assertEqual(shown, text.splitlines())

    def test_readme_commands_print_what_readme_shows(self):
        count = 0
        for commands in (*blocks(), *blocks("docs/examples.md")):
            count += 1
            words = "\n".join(command for command, _ in commands)
            if "weightfs mount" in words and not os.path.exists("/dev/fuse"):
                self.skipTest("no /dev/fuse here")
            if "localhost:5000" in words:
                self.serve()
            elif "ollama" in words:
                self.keep()
            self.compare(commands)
            for folder in (self.path("cache"), self.path("home", ".ollama")):
                shutil.rmtree(folder, ignore_errors=True)
        self.assertGreater(count, 4)

    def serve_objects(self):
        """Starts an object store with the models, in place of the one in docs/remote.md."""
        store = S3Server(self)
        store.public.add("models")
        for key, name in (("llama/demo.gguf", "demo.gguf"), ("digits/demo.rten", "demo.rten")):
            with open(self.path("home", name), "rb") as file:
                store.put("models", key, file.read())
        store.put("models", "llama/README.md", b"# A model\n")
        self.names[f"localhost:{store.port}"] = "localhost:9000"

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_commands_for_object_stores_print_what_the_page_shows(self):
        found = [block for block in blocks("docs/remote.md") if any("s3://" in command for command, _ in block)]
        self.assertEqual(len(found), 1)
        self.serve_objects()
        self.compare(found[0])

    def test_commands_of_the_http_server_print_what_the_page_shows(self):
        found = list(blocks("docs/serve.md"))
        self.assertEqual(len(found), 2)
        for commands in found:
            self.compare(commands)

    def test_wrong_line_is_detected(self):
        printed = "a\nb\nc\n"
        for right in (["a", "b", "c"], ["…"], ["a", "…"], ["…", "c"], ["a", "…", "c"]):
            self.assertTrue(matches(right, printed), right)
        for wrong in ([], ["a"], ["a", "b"], ["…", "b"], ["a", "…", "x"], ["b", "…"]):
            self.assertFalse(matches(wrong, printed), wrong)

    def test_dates_and_owners_are_ignored(self):
        listed = "-r--r--r-- 1 root root   128 Nov 20 12:00 x\n"
        self.assertTrue(matches(["-r--r--r-- 1 you yours   128 Jan  1  2026 x"], listed))
        self.assertFalse(matches(["-r--r--r-- 1 root root   129 Nov 20 12:00 x"], listed))


if __name__ == "__main__":
    unittest.main()
