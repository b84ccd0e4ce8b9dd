"""Shared by the mount tests: mounts that are removed when their test ends, also after a failure."""
import concurrent.futures
import contextlib
import errno
import fcntl
import functools
import os
import pty
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import containers  # noqa: E402
from commands import VERBS, Commands  # noqa: E402
from processes import is_mounted, processes_of  # noqa: E402
from tensors import Hole, Tensor  # noqa: E402
from waiting import eventually  # noqa: E402

os.environ["LC_ALL"] = "C.UTF-8"  # `info` writes ASCII otherwise
WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 60
NOBODY = pwd.getpwnam("nobody")
only_root_mounts = unittest.skipUnless(os.geteuid() == 0, "only root can mount other file systems")
ONLY_ROOT_SEES = "only root sees the memory and the open files of a server (docs/security.md, Secrets)"
only_root_sees = unittest.skipUnless(os.geteuid() == 0, ONLY_ROOT_SEES)


@contextlib.contextmanager
def skipped_if_hidden():
    """Skips a test, or a part of it, that reads files of a server in /proc, unless root runs it."""
    try:
        yield
    except PermissionError as error:
        if os.geteuid() == 0 or not str(error.filename).startswith("/proc/"):
            raise
        raise unittest.SkipTest(ONLY_ROOT_SEES) from error


@functools.cache
def commands():
    """The process in which commands run; None if the build has none, or tests another program."""
    program = os.path.join(os.path.dirname(WEIGHTFS), "tests", "weightfs_commands")
    return Commands(program) if os.path.exists(program) else None


def run(*argv, text=True, **kwargs):
    """Runs weightfs with these arguments; its output is bytes if `text` is false. It does not wait for servers that are down,
    unless they say so."""
    if argv[:1] in (("mount",), ("fetch",)) and "--wait-for-network" not in argv:
        argv = (argv[0], "--wait-for-network", "0", *argv[1:])
    if argv[:1] and argv[0] in VERBS and kwargs.keys() <= {"cwd", "env"} and commands():
        return commands().run([WEIGHTFS, *argv], timeout=LIMIT_S, text=text, **kwargs)
    return subprocess.run([WEIGHTFS, *argv], capture_output=True, text=text, timeout=LIMIT_S, **kwargs)


def until(condition, what):
    """Waits for a condition; `what` (a text, or a function that returns one) describes the failure after a timeout."""
    if not eventually(condition, LIMIT_S):
        raise AssertionError(what() if callable(what) else what)


def at_once(count, work):
    """The results of work(0) to work(count - 1), each in a thread of its own."""
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return list(threads.map(work, range(count)))


def halt(pid):
    """Stops all threads of a process, and waits for that: a thread that still takes a request could make its caller unkillable."""
    def is_stopped(task):
        try:
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] == "T"
        except (FileNotFoundError, ProcessLookupError):
            return True  # the thread has exited

    def stop():
        os.kill(pid, signal.SIGSTOP)
        if eventually(lambda: all(map(is_stopped, os.listdir(f"/proc/{pid}/task"))), 1):
            return True
        # A thread that waits for its own mount stops only after a stopped thread has answered.
        os.kill(pid, signal.SIGCONT)
        return False

    until(stop, "it does not stop")


def on_terminal(*argv, NO_COLOR="1", TERM="xterm", status=0, columns=0, of="stdout", cwd=None, **variables):
    """The output of weightfs on a terminal (columns=0: of unknown width); without colors by default. `of` is stdout or stderr; the
    other one is a pipe. `variables` are of the environment."""
    env = dict(os.environ, TERM=TERM, NO_COLOR=NO_COLOR, **variables)
    terminal, other = pty.openpty()
    termios.tcsetwinsize(terminal, (24, columns))
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, of: other}
    process = subprocess.Popen([WEIGHTFS, *argv], stdin=subprocess.DEVNULL, env=env, cwd=cwd, **streams)
    os.close(other)
    out = b""
    try:
        while piece := os.read(terminal, 4096):
            out += piece
    except OSError as error:  # Linux: the other end was closed
        assert error.errno == errno.EIO, error
    os.close(terminal)
    others = process.communicate(timeout=LIMIT_S)
    assert process.returncode == status, (process.returncode, out, others)
    return out.decode().replace("\r\n", "\n")


class Interactive:
    """weightfs whose standard error is a terminal."""

    def __init__(self, *argv, **options):
        self.terminal, other = pty.openpty()
        termios.tcsetwinsize(self.terminal, (24, 200))
        self.process = subprocess.Popen([WEIGHTFS, *argv], stdin=subprocess.DEVNULL, stderr=other,
                                        **{"stdout": subprocess.DEVNULL, **options})
        os.close(other)

    def wait_for(self, text):
        """Reads until `text` is shown, and returns the output so far."""
        shown = ""
        end = time.monotonic() + LIMIT_S
        while text not in shown:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {text!r} in {shown!r}")
            shown += os.read(self.terminal, 4096).decode(errors="replace")
        return shown

    def rest(self):
        """What it shows until it ends."""
        self.process.wait(LIMIT_S)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: no program has the terminal any more
            while piece := os.read(self.terminal, 4096):
                shown += piece
        return shown.decode(errors="replace")

    def close(self):
        self.process.kill()
        self.process.wait(LIMIT_S)
        os.close(self.terminal)


def as_nobody(*argv, env=None):
    """Runs a command as an ordinary user."""
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, user=NOBODY.pw_uid, group=NOBODY.pw_gid,
                          extra_groups=[], cwd="/", env=env)


def numbers(dtype_code, count):
    """`count` little-endian numbers 0, 1, 2, ... of a struct code."""
    import struct
    return struct.pack(f"<{count}{dtype_code}", *(i % 100 for i in range(count)))


def sample_tensors():
    """Tensors that every format can hold."""
    return [
        Tensor("encoder/weight", "float32", (3, 20), numbers("f", 60)),
        Tensor("bias", "int32", (4,), numbers("i", 4)),
        Tensor("scalar", "float32", (), numbers("f", 1)),
        Tensor("empty", "int8", (0, 2), b""),
        Tensor("bytes", "int8", (5,), numbers("b", 5)),
    ]


class TestCase(unittest.TestCase):
    """A test with a temporary directory that leaves no mount, server or file behind."""

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="weightfs-test-")
        self.addCleanup(self.clear)
        # A separate cache for this test.
        os.environ["WEIGHTFS_CACHE"] = self.path("cache")

    def _callTestMethod(self, method):
        with skipped_if_hidden():
            super()._callTestMethod(method)

    def clear(self):
        """Removes the directory after all processes of the test have exited: a server still removes its mount point after
        unmounting."""
        until(lambda: not processes_of(self.tmp), lambda: f"does not end: {processes_of(self.tmp)}")
        if os.geteuid() != 0:  # a copy of a mount has directories without write permission
            for folder, *_ in os.walk(self.tmp):
                if not os.path.islink(folder):
                    os.chmod(folder, 0o700)
        shutil.rmtree(self.tmp)

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def sample(self, name="model.safetensors", tensors=None, format="safetensors", metadata=None):
        containers.WRITERS[format](self.path(name), tensors or sample_tensors(), metadata)
        return self.path(name)

    def need_mount_namespace(self):
        """Skips the test where unshare(1) fails: for ordinary users, and in a chroot whose root is not a mount point."""
        done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no mount namespace here: {done.stderr.strip()}")


def allow_fuse_for_all(test):
    """All users may open /dev/fuse until the last of the tests that run at the same time, in any process, has ended."""
    def change(by):
        with open(os.path.join(tempfile.gettempdir(), "weightfs-tests-fuse"), "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            count, mode = map(int, (file.read() or "0 0").split())
            if count == 0:
                mode = os.stat("/dev/fuse").st_mode & 0o777
            count += by
            os.chmod("/dev/fuse", 0o666 if count > 0 else mode)
            file.truncate(0)
            file.write(f"{count} {mode}")
    change(1)
    test.addCleanup(change, -1)


@unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
class MountTestCase(TestCase):
    def mount(self, *argv, at="mnt", lacks="", **kwargs):
        """Mounts at `at` and returns the mount point; fails the test if that fails, or if it says something else than what the
        model lacks."""
        point = self.path(at)
        self.addCleanup(self.force_unmount, point)
        done = run("mount", *argv, point, **kwargs)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 1 if lacks else 0), done.stderr)
        self.assertIn(lacks, done.stderr)
        return point

    def force_unmount(self, point):
        if is_mounted(point) and subprocess.run(["umount", "-l", point], check=False).returncode != 0:
            self.assertFalse(is_mounted(point))  # the broker of a server that was killed was faster

    def unmount(self, point):
        done = run("umount", point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def server(self, point):
        """The pid of the process that serves a mount."""
        return int(os.getxattr(point, "user.weightfs.pid"))

    def stop(self, point):
        """Makes the server of a mount hang until the test ends."""
        server = self.server(point)
        self.addCleanup(os.kill, server, signal.SIGCONT)
        halt(server)
        return server

    def foreground(self, *argv, at="mnt", env=None):
        """Starts `weightfs mount -f` and returns it when the mount is usable; it logs only errors."""
        point = self.path(at)
        process = subprocess.Popen([
            WEIGHTFS, "mount", "-f", "--log-level", "warning",
            *([] if "--wait-for-network" in argv else ["--wait-for-network", "0"]), *argv, point
        ], stderr=subprocess.PIPE, text=True, env=env)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(self.force_unmount, point)
        until(lambda: os.path.ismount(point) or process.poll() is not None, "it does not mount")
        self.assertIsNone(process.poll(), "the server ended before it was mounted")
        os.stat(point)
        return process, point


class OneMountTestCase(MountTestCase):
    """Tests that only read models, which the class mounts once: `mnt`, with a directory for each model if there are several.
    `owner` has the sources; a test has its own directory, too."""

    @classmethod
    def setUpClass(cls):
        cls.owner = MountTestCase()
        cls.owner.setUp()
        cls.addClassCleanup(cls.remove)
        cls.mnt = cls.owner.mount(*cls.sources_of(cls.owner))

    @classmethod
    def sources_of(cls, owner):
        """Writes the models."""
        return [owner.sample()]

    @classmethod
    def remove(cls):
        if not cls.owner.doCleanups():
            raise AssertionError(f"{cls.mnt} cannot be removed")


@unittest.skipUnless(os.getuid() == 0, "only root can become another user")
@unittest.skipUnless(shutil.which("fusermount3"), "no fusermount3 here")
@unittest.skipUnless(os.path.exists("/etc/mtab"), "fusermount3 needs /etc/mtab, which a booted Debian has")
class UsersTestCase(MountTestCase):
    """A program and a model that ordinary users can access."""

    def setUp(self):
        super().setUp()
        # Exists on every Debian machine, but not in every container.
        allow_fuse_for_all(self)
        os.chmod(self.tmp, 0o755)
        self.binary = self.path("weightfs")
        shutil.copy(WEIGHTFS, self.binary)
        self.source = self.sample()


def has_ended(pid):
    """Whether a process has exited, or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second one if it ends meanwhile
        return True


def is_sanitized():
    with open(WEIGHTFS, "rb") as file:
        return b"__asan_init" in file.read()


def descriptors_of(pid):
    """How many descriptors a process has open at the moment: a request that is not complete may have a few."""
    with skipped_if_hidden():
        return len(os.listdir(f"/proc/{pid}/fd"))


def requests_of(pid):
    """How many read system calls a server has made: one per request of the kernel, and its own reads."""
    with skipped_if_hidden(), open(f"/proc/{pid}/io") as file:
        return int(dict(line.split(": ") for line in file)["syscr"])


__all__ = [
    "Hole", "LIMIT_S", "MountTestCase", "NOBODY", "Tensor", "TestCase", "UsersTestCase", "WEIGHTFS", "as_nobody", "containers",
    "descriptors_of", "halt", "has_ended", "is_sanitized", "numbers", "on_terminal", "os", "processes_of", "requests_of", "run",
    "sample_tensors", "shutil", "signal", "subprocess", "sys", "unittest", "until"
]
