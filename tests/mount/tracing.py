"""For tests that show which programs are started, and which files and connections are opened, while models are read."""
import glob
import re
import shutil
import tempfile

from mounting import LIMIT_S, MountTestCase, os, subprocess, until, WEIGHTFS

# What the program itself may open outside of the test's directory: libraries, settings of the system, its own process.
SYSTEM = ("/etc/", "/lib/", "/lib64/", "/usr/", "/proc/", "/sys/", "/dev/", "/run/", "/var/run/")
CALLS = "execve,execveat,connect,open,openat,openat2,creat"


class TracedTestCase(MountTestCase):
    def setUp(self):
        super().setUp()
        if shutil.which("strace") is None:
            self.skipTest("strace is missing, which lists system calls")

    def mount_traced(self, source, kinds=CALLS):
        """Mounts a source. Returns the server, the mount point, and where calls_in() finds the system calls of these kinds."""
        mount = tempfile.mkdtemp(prefix="mnt-", dir=self.tmp)
        trace = os.path.join(tempfile.mkdtemp(prefix="trace-", dir=self.tmp), "calls")
        # The search for leaks would trace the process, too.
        options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))
        server = subprocess.Popen(["strace", "-ff", "--seccomp-bpf", "-qq", "-s", "4096", "-e", f"trace={kinds}", "-o", trace,
                                   WEIGHTFS, "mount", "-f", source, mount],
                                  stderr=subprocess.PIPE, text=True, env=dict(os.environ, ASAN_OPTIONS=options))
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(self.force_unmount, mount)
        self.wait_for_mount(server, mount)
        return server, mount, trace

    def traced(self, models):
        """Mounts a directory, reads all of it, and returns the system calls of that, and the bytes by path."""
        server, mount, trace = self.mount_traced(models)
        before = calls_in(trace)
        self.assertTrue(any(call.startswith("execve(") for calls in before.values() for call in calls), "strace recorded nothing")
        contents = read_all(mount)
        after = calls_since(before, trace)
        self.unmount(mount)
        server.wait(LIMIT_S)
        return after, contents

    def wait_for_mount(self, server, mount):
        until(lambda: os.path.ismount(mount) or server.poll() is not None, "it does not mount")
        if server.poll() is not None:
            self.skipTest(f"strace cannot trace a mount here: {server.stderr.read().strip()}")

    def assert_nothing_runs(self, calls, models):
        """No program is started, nothing is connected to, and no file is opened outside of the directory `models`."""
        for call in calls:
            self.assertNotRegex(call, r"^(execve|execveat|connect|creat)\(")
            if "O_PATH" in call or "O_TMPFILE" in call:
                continue  # finds out where a symbolic link leads; or a new file without a name
            path = re.search(r'"([^"]*)"', call)
            self.assertTrue(path is None or self.is_allowed(path[1], models), call)

    def is_allowed(self, path, models):
        """A relative path is below a directory that is open already."""
        own = (models, self.path("cache"), self.path("mnt-"))
        return not path.startswith("/") and ".." not in path.split("/") or path.startswith(own) or (
            path.startswith(SYSTEM) and "passwd" not in path)


def calls_in(trace):
    """The system calls so far, by the file of each thread."""
    calls = {}
    for file in glob.glob(trace + ".*"):
        with open(file, errors="replace") as text:
            calls[file] = text.read().splitlines()
    return calls


def calls_since(before, trace):
    """The system calls after those of an earlier calls_in(), of all threads."""
    return [call for file, calls in calls_in(trace).items() for call in calls[len(before.get(file, [])):]]


def read_all(mount, most=1 << 20):
    """The first and the last bytes of each file that can be read, by its path: a tensor may have many terabytes."""
    contents = {}
    for base, _, names in os.walk(mount):
        for name in names:
            path = os.path.join(base, name)
            try:
                with open(path, "rb") as file:
                    contents[os.path.relpath(path, mount)] = file.read(most)
                    file.seek(max(0, os.path.getsize(path) - most))
                    file.read(most)
            except OSError:
                pass  # refused tensors
    return contents
