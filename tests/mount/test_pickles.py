"""Checkpoints of PyTorch whose pickles would run code: mounted and read completely, they run nothing."""
import glob
import re
import shutil

from mounting import LIMIT_S, MountTestCase, os, run, subprocess, unittest, until, WEIGHTFS
import pickles

# What the program itself may open outside of the test's directory: libraries, settings of the system, its own process.
SYSTEM = ("/etc/", "/lib/", "/lib64/", "/usr/", "/proc/", "/sys/", "/dev/", "/run/", "/var/run/")


def evil_objects(command):
    """(name, opcodes of an object, files on which it acts): each way in which a pickle can call a function."""
    argument = pickles.text(command)
    system = pickles.function("posix", "system")
    call = pickles.call("posix", "system", argument)
    return {
        "reduce": call,
        "global_of_os": pickles.call("os", "system", argument),
        "stack_global": pickles.text("posix") + pickles.text("system") + b"\x93" + argument + b"\x85R",
        "dotted": pickles.text("os") + pickles.text("path.os.system") + b"\x93" + argument + b"\x85R",
        "inst": b"(" + argument + b"iposix\nsystem\n",
        "obj": b"(" + system + argument + b"o",
        "newobj": pickles.function("subprocess", "Popen") + argument + b"\x85\x81",
        "newobj_ex": pickles.function("subprocess", "Popen") + b"(" + argument + b"t" + pickles.value({"shell": True}) + b"\x92",
        "eval": pickles.call("builtins", "eval", pickles.text(f"__import__('os').system({command!r})")),
        "getattr": pickles.call("builtins", "getattr", pickles.call("importlib", "import_module", pickles.text("os")),
                                pickles.text("system")) + argument + b"\x85R",
        "setstate": pickles.call("argparse", "Namespace") + pickles.value({"__setstate__": None})[:2] +
                    pickles.text("__setstate__") + system + b"ub" + argument + b"b",
        "from_type": pickles.call("torch._tensor", "_rebuild_from_type_v2", system, pickles.function("torch", "Tensor"),
                                  b"(" + argument + b"t", b"N"),
        "hooks": pickles.call("torch._utils", "_rebuild_tensor_v2", pickles.storage("Float", "0", 1), pickles.integer(0),
                              pickles.value((1,)), pickles.value((1,)), b"\x89", call),
        "connect": pickles.call("socket", "create_connection", pickles.value(("127.0.0.1", 9))),
        "open": pickles.call("builtins", "open", pickles.text("/etc/passwd")),
        "key_is_path": pickles.tensor(pickles.storage("Byte", "../../../../../../etc/passwd", 10), (10,)),
    }


class PickleTest(MountTestCase):
    def checkpoint(self, name, opcodes):
        data = b"\0\0\x80\x3f"
        good = pickles.tensor(pickles.storage("Float", "0", 1), (1,))
        items = pickles.dictionary([("evil", opcodes), ("w", good)])
        pickles.write_checkpoint(self.path(f"{name}.pt"), items, [data])
        self.write(f"{name}-legacy.pt", pickles.legacy(items, [("0", 1, data)]))
        return [self.path(f"{name}.pt"), self.path(f"{name}-legacy.pt")]

    def read_all(self, mount):
        for base, _, names in os.walk(mount):
            for name in names:
                try:
                    with open(os.path.join(base, name), "rb") as file:
                        while file.read(1 << 16):
                            pass
                except OSError:
                    pass  # refused tensors

    def models(self):
        self.marker = self.path("ran")
        os.makedirs(self.path("models"))
        files = []
        for name, opcodes in evil_objects(f"touch {self.marker}").items():
            files += self.checkpoint(f"models/{name}", opcodes)
        return files

    def test_malicious_pickles_run_nothing(self):
        files = self.models()
        mount = self.mount(self.path("models"))
        self.assertEqual(sorted(os.listdir(mount)), sorted(map(os.path.basename, files)))
        for file in files:
            with self.subTest(os.path.basename(file)):
                self.read_all(os.path.join(mount, os.path.basename(file)))
                with open(os.path.join(mount, os.path.basename(file), "tensors", "w"), "rb") as tensor:
                    self.assertEqual(tensor.read(), b"\0\0\x80\x3f")
                self.assertTrue(os.path.exists(os.path.join(mount, os.path.basename(file), "warnings.txt")))
        self.unmount(mount)
        for command in ("info", "verify", "ls"):
            for file in files:
                run(command, file)
        self.assertFalse(os.path.exists(self.marker), "a pickle ran a command")

    def test_info_shows_dangerous_names_at_the_top(self):
        file = self.checkpoint("m", pickles.call("posix", "system", pickles.text("id")))[0]
        lines = run("info", file).stdout.splitlines()
        self.assertTrue(any(re.fullmatch(r"  dangerous_globals +posix\.system", line) for line in lines[:6]), lines)

    @unittest.skipUnless(shutil.which("strace"), "strace is missing, which lists system calls")
    def test_malicious_pickles_cause_no_system_calls(self):
        """No program is started after the start of weightfs, nothing is connected to, and no file is opened outside of the
        directory of the models."""
        self.models()
        mount, trace = self.path("mnt"), self.path("trace")
        os.makedirs(mount)
        # The search for leaks would trace the process, too.
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
        server = subprocess.Popen(["strace", "-ff", "-qq", "-s", "4096", "-e", "trace=execve,execveat,connect,open,openat,openat2,creat",
                                   "-o", trace, WEIGHTFS, "mount", "-f", self.path("models"), mount],
                                  stderr=subprocess.PIPE, text=True, env=dict(os.environ, ASAN_OPTIONS=options))
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(self.force_unmount, mount)
        self.wait_for_mount(server, mount)
        before = self.calls(trace)
        self.assertTrue(any(call.startswith("execve(") for calls in before.values() for call in calls), "strace recorded nothing")
        self.read_all(mount)
        after = [call for file, calls in self.calls(trace).items() for call in calls[len(before.get(file, [])):]]
        self.unmount(mount)
        server.wait(LIMIT_S)
        self.assertTrue(any("reduce.pt" in call for call in after), "the trace lacks the models")
        for call in after:
            self.assertNotRegex(call, r"^(execve|execveat|connect|creat)\(")
            path = re.search(r'"([^"]*)"', call)
            self.assertTrue(path is None or self.is_allowed(path[1]), call)
        self.assertFalse(os.path.exists(self.marker), "a pickle ran a command")

    def is_allowed(self, path):
        """A relative path is below a directory that is open already."""
        return not path.startswith("/") and ".." not in path or path.startswith(self.tmp) or (
            path.startswith(SYSTEM) and "passwd" not in path)

    def wait_for_mount(self, server, mount):
        until(lambda: os.path.ismount(mount) or server.poll() is not None, "it does not mount")
        if server.poll() is not None:
            self.skipTest(f"strace cannot trace a mount here: {server.stderr.read().strip()}")

    def calls(self, trace):
        """The system calls so far, by the file of each thread."""
        calls = {}
        for file in glob.glob(trace + ".*"):
            with open(file, errors="replace") as text:
                calls[file] = text.read().splitlines()
        return calls


if __name__ == "__main__":
    unittest.main()
