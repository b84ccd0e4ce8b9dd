"""Builds one attack, runs the commands and a mounted walk on it, and measures them. Runs in a separate process, which
stays small: a child's peak memory starts with its parent's size at the fork.
"""
import importlib
import os
import pkgutil
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import limits
import serve
import walk
from processes import is_mounted, processes_of  # attack.py put it on the path
from waiting import eventually

COMMANDS = {"info": ("info",), "ls": ("ls", "-l", "-R"), "verify": ("verify",)}
HONEST_NAME = "honest"  # a directory: a file would be the one model of SOURCE, beside some attacks


def load_attacks():
    """Every row of every attacks_*.py, by name."""
    folder = os.path.dirname(os.path.abspath(__file__))
    rows = [row for module in sorted(info.name for info in pkgutil.iter_modules([folder]) if info.name.startswith("attacks_"))
            for row in importlib.import_module(module).ATTACKS]
    by_name = {row.name: row for row in rows}
    assert len(by_name) == len(rows), sorted(row.name for row in rows if sum(other.name == row.name for other in rows) > 1)
    return by_name


def forked(function, timeout):
    """Runs a function in a child process that is killed after `timeout` seconds; (result, None) or (None, error).
    The child's own children are killed with it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.close(reader)
        status = 1
        try:
            text = repr(function())
            status = 0
        except BaseException:
            text = traceback.format_exc()
        with os.fdopen(writer, "w") as out:
            out.write(text)
        os._exit(status)
    os.close(writer)
    status, _, _ = wait(pid, timeout)
    with os.fdopen(reader) as file:
        text = file.read()
    if status == 0:
        return eval(text), None  # a repr() written by this file
    return None, text or f"ended with {status}"


def wait(pid, timeout):
    """Waits for a child, and kills it and its group after `timeout` seconds; (status, CPU seconds, peak bytes). The status is
    a text for a signal or a timeout."""
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    in_time = poll.poll(timeout * 1000)
    os.close(handle)
    if not in_time:
        for kill in (os.killpg, os.kill):
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    text = "timeout" if not in_time else code if code >= 0 else signal.Signals(-code).name
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


class Runner:
    """A directory for one attack: the sources, the cache, temporary files, the mount point."""

    def __init__(self, binary, attack, slowdown):
        self.binary, self.attack, self.slowdown = binary, attack, slowdown
        self.tmp = tempfile.mkdtemp(prefix="weightfs-attack-")
        self.folder = self.make("source", "attack")
        self.env = {"PATH": os.environ["PATH"], "WEIGHTFS_CACHE": self.make("cache"), "TMPDIR": self.make("tmp"),
                    "HOME": self.make("home"), "NO_COLOR": "1"}
        self.server = None

    def make(self, *names):
        path = os.path.join(self.tmp, *names)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def start(self, argv, stderr, requests=0, stdout=subprocess.DEVNULL):
        def restrict():
            seconds = int(
                limits.cpu_limit(self.bytes, self.attack, self.slowdown) + requests * limits.CPU_PER_REQUEST_S * self.slowdown +
                limits.GUARD_CPU_S) + 1
            resource.setrlimit(resource.RLIMIT_AS, (limits.ADDRESS_SPACE, limits.ADDRESS_SPACE))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        return subprocess.Popen([self.binary, *argv], env=self.env, cwd=self.tmp, stdin=subprocess.DEVNULL, stdout=stdout,
                                stderr=stderr, preexec_fn=restrict, start_new_session=True)

    def finished(self, process, stderr):
        """The resource usage of a process after its end."""
        status, cpu, memory = wait(process.pid, limits.GUARD_WALL_S)
        process.returncode = 0  # the child was waited for above
        stderr.seek(0)
        return {"status": status, "cpu": cpu, "memory": memory, "stderr": stderr.read(4096).decode(errors="replace")}

    def run(self, verb, source):
        with tempfile.TemporaryFile() as stderr, tempfile.TemporaryFile() as stdout:
            result = self.finished(self.start([*COMMANDS[verb], *self.attack.options, source], stderr, stdout=stdout), stderr)
            stdout.seek(0)
            result["lines"] = sum(block.count(b"\n") for block in iter(lambda: stdout.read(1 << 20), b""))
            return result

    def mounted_walk(self):
        """Mounts the attack and an honest model beside it, walks both, and unmounts."""
        point = self.make("mnt")
        with tempfile.TemporaryFile() as stderr:
            argv = ["mount", "-f", "--log-level", "error", *self.attack.options, os.path.join(self.tmp, "source"), point]
            process = self.start(argv, stderr, walk.MAX_REQUESTS)
            found = error = served = None
            try:
                if eventually(lambda: os.path.ismount(point) or self.has_ended(process), limits.GUARD_WALL_S):
                    found, error = forked(lambda: walk.walk_at_once(point, self.attack.readers), limits.GUARD_WALL_S)
                    served, problem = forked(lambda: walk.read_honest(os.path.join(point, HONEST_NAME)), limits.GUARD_WALL_S)
                    error = error or problem
            finally:
                if not self.has_ended(process):
                    os.kill(process.pid, signal.SIGTERM)
                result = self.finished(process, stderr)
                if is_mounted(point):
                    subprocess.run(["umount", "-l", point], check=False)
        return {**result, "walk": found, "error": error, "served": served}

    @staticmethod
    def has_ended(process):
        with open(f"/proc/{process.pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"

    def left_behind(self):
        """Everything that the commands left behind except complete blobs: temporary files, partial downloads, mounts, processes."""
        eventually(lambda: not processes_of(self.tmp), 5)
        found = [f"process {pid}: {argv}" for pid, argv in processes_of(self.tmp).items()]
        for base, _, names in os.walk(self.tmp):
            below = os.path.relpath(base, self.tmp)
            if below.split("/")[0] in ("tmp", "home") or any(part in below.split("/") for part in ("making", "fetching")):
                found += [os.path.join(below, name) for name in names]
            for name in (name for name in names if name.endswith(".map")):
                with open(os.path.join(base, name), "rb") as file:
                    found += [os.path.join(below, name)] if b"\nnew " in file.read(4096) else []
        if is_mounted(os.path.join(self.tmp, "mnt")):
            found.append("a mount")
        return found[:10]

    def run_all(self, source):
        """Runs every command and the walk; the guards stop at the first that far exceeds its limits."""
        runs = {}
        for verb in (*COMMANDS, "walk"):
            runs[verb] = self.mounted_walk() if verb == "walk" else self.run(verb, source)
            if runs[verb]["status"] in ("timeout", "SIGKILL", "SIGXCPU"):
                break
        return runs

    def measure(self):
        helper = serve.start(self.attack.serve) if self.attack.serve else None
        begin = time.monotonic()
        try:
            path, error = forked(lambda: self.attack.build(self.folder, *([helper.port] if helper else [])), limits.GUARD_WALL_S)
            if error:
                return {"name": self.attack.name, "build": error}
            walk.write_honest(self.make(os.path.join("source", HONEST_NAME)))
            self.bytes = limits.bytes_of(self.folder)
            out = {"name": self.attack.name, "bytes": self.bytes, "build_s": time.monotonic() - begin}
            out["runs"] = self.run_all(os.path.join(self.folder, path) if path else self.folder)
            out["left"] = self.left_behind()
            out["wall_s"] = time.monotonic() - begin
            return out
        finally:
            if helper:
                helper.stop()
            shutil.rmtree(self.tmp, ignore_errors=True)


def measure(binary, name, slowdown):
    """For a pool of processes: one attack by its name."""
    try:
        return Runner(binary, load_attacks()[name], slowdown).measure()
    except Exception:
        return {"name": name, "build": traceback.format_exc()}


sys.setrecursionlimit(100_000)  # of builders
