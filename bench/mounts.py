"""The measured mounts: weightfs, the floors and the peers. Each is a context manager that unmounts at its end."""
import os
import subprocess
import tempfile
import time

TIMEOUT_S = 60


class Failed(Exception):
    """A step that the measurement needs has failed."""


def wait_until(condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"{what}: not after {TIMEOUT_S} s")
        time.sleep(0.001)


def unmount(mountpoint):
    """Unmounts all file systems at the mount point, also if their servers hang or are dead."""
    for command in (["fusermount3", "-u"], ["fusermount3", "-uz"], ["umount", "-l"]):
        if mountpoint not in mountpoints():
            return
        subprocess.run([*command, mountpoint], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def mountpoints():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        return [line.split()[4] for line in table]


def unmount_below(folder):
    for mountpoint in mountpoints():
        if mountpoint.startswith(folder + "/"):
            unmount(mountpoint)


class Process:
    """Figures of a server process from /proc."""

    def __init__(self, pid):
        self.pid = pid

    def memory(self):
        """Resident memory in bytes: now, and the peak."""
        fields = dict(line.split(":", 1) for line in self.read("status").splitlines())
        return tuple(int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))

    def replies(self):
        """Number of FUSE replies: a server writes each with one system call (spliced replies are not counted)."""
        fields = dict(line.split(": ") for line in self.read("io").splitlines())
        return int(fields["syscw"])

    def bytes_read(self):
        """Bytes of all its reads: of files, and of requests."""
        fields = dict(line.split(": ") for line in self.read("io").splitlines())
        return int(fields["rchar"])

    def processor_seconds(self):
        """User and kernel time; it hardly depends on the load of the machine."""
        user, system = self.stat()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def alive(self):
        try:
            return self.stat()[0] not in "ZX"
        except FileNotFoundError:
            return False

    def stat(self):
        """The fields of /proc/PID/stat from the state on; the name before it may have any characters."""
        return self.read("stat").rsplit(")", 1)[1].split()

    def read(self, name):
        with open(f"/proc/{self.pid}/{name}") as file:
            return file.read()


class Mount:
    """A mounted server: `path` is its root, `process` the server."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "mnt")
        self.process = None
        os.makedirs(self.path, exist_ok=True)

    def __enter__(self):
        try:
            self.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        unmount(self.path)
        if self.process is not None:
            wait_until(lambda: not self.process.alive(), f"process {self.process.pid} to end after its mount")

    def read_ahead_file(self):
        device = os.stat(self.path).st_dev
        return f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"

    def read_ahead_kb(self):
        with open(self.read_ahead_file()) as file:
            return int(file.read())


class Weightfs(Mount):
    """A weightfs mount, in a cgroup if one is given. `seconds`: duration of `weightfs mount`, including the start of the
    process."""

    def __init__(self, binary, source, folder, cache, *options, cgroup=None):
        super().__init__(folder)
        self.cgroup = cgroup
        self.command = [binary, "mount", *options, source, self.path]
        self.environment = dict(os.environ, WEIGHTFS_CACHE=cache)
        self.seconds = None

    def mount(self):
        # A file, not a pipe: the server may keep it open.
        with tempfile.TemporaryFile() as errors:
            start = time.perf_counter()
            status = run_to_its_end(self.command, stdout=subprocess.DEVNULL, stderr=errors, env=self.environment,
                                    preexec_fn=self.cgroup and self.cgroup.add_this_process)
            self.seconds = time.perf_counter() - start
            errors.seek(0)
            if status != 0:
                raise Failed(f"{' '.join(self.command)}: status {status}: {errors.read().decode(errors='replace')}")
        self.process = Process(int(os.getxattr(self.path, "user.weightfs.pid")))


def run_to_its_end(command, **options):
    """Runs a command to its end: a killed `weightfs mount` may leave a server that mounts later."""
    process = subprocess.Popen(command, start_new_session=True, **options)
    try:
        return process.wait()
    except BaseException:
        process.wait(TIMEOUT_S)
        raise


class Floor(Mount):
    """A floor server; `read_ahead_kb` sets the read-ahead of another mount (root only)."""

    def __init__(self, command, folder, read_ahead_kb=None):
        super().__init__(folder)
        self.command = [*command, self.path]
        self.wanted_read_ahead_kb = read_ahead_kb
        self.server = None

    def mount(self):
        # In a session of its own, as weightfs: the scheduler shares the processors among sessions (sched(7), autogroup).
        self.server = subprocess.Popen(self.command, start_new_session=True)
        self.process = Process(self.server.pid)
        wait_until(lambda: self.path in mountpoints() or self.server.poll() is not None, f"{self.command[0]} to mount")
        if self.server.poll() is not None:
            raise Failed(f"{' '.join(self.command)}: status {self.server.returncode}")
        os.stat(self.path)
        if self.wanted_read_ahead_kb not in (None, self.read_ahead_kb()):
            with open(self.read_ahead_file(), "w") as file:
                file.write(str(self.wanted_read_ahead_kb))

    def __exit__(self, *_):
        if self.server is not None:
            self.server.terminate()
            self.server.wait(TIMEOUT_S)
        unmount(self.path)


class Peer(Mount):
    """Another FUSE file system, which daemonizes itself. `seconds`: until its root can be listed."""

    def __init__(self, command, folder):
        super().__init__(folder)
        self.command = [*command, self.path]
        self.seconds = None

    def mount(self):
        start = time.perf_counter()
        status = run_to_its_end(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if status != 0:
            raise Failed(f"{' '.join(self.command)}: status {status}")
        os.stat(self.path)
        os.listdir(self.path)
        self.seconds = time.perf_counter() - start
