"""Runs commands of weightfs in children of one process (tests/commands/commands.cc), as subprocess.run() does with the program."""
import array
import atexit
import os
import selectors
import signal
import socket
import subprocess
import threading
import time

VERBS = {"cat", "completion", "diff", "doctor", "export", "fetch", "info", "list", "ls", "plot", "show", "stats", "verify", "cache",
         "service", "complete", "--help", "-h", "--version", "--exit-statuses"}


class Commands:
    """A process for the commands of this one. Callable from any thread."""

    def __init__(self, program):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.socket = ours
        # Without the directory of the first test, and with the options of sanitizers.
        environment = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        self.process = subprocess.Popen([program], stdin=theirs, env=environment)
        theirs.close()
        self.lock = threading.Lock()
        atexit.register(self.close)

    def close(self):
        """Waits for its end: the processor time of the commands is part of that of this process (tests/run.py)."""
        self.socket.close()
        self.process.wait(60)

    def run(self, argv, cwd=None, env=None, timeout=60, text=True):
        """The result of a command without standard input; its output is bytes if `text` is false."""
        variables = (f"{name}={value}" for name, value in (os.environ if env is None else env).items())
        words = [os.path.abspath(cwd or "."), str(len(argv)), *argv, *variables]
        packet = b"".join(os.fsencode(word) + b"\0" for word in words)
        (out, to_out), (err, to_err), (end, to_end) = os.pipe(), os.pipe(), os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        given = [nothing, to_out, to_err, to_end]
        try:
            with self.lock:
                self.socket.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", given))])
        finally:
            for descriptor in given:
                os.close(descriptor)
        done = self.read(argv, {out: b"", err: b"", end: b""}, timeout)
        if text:
            done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    @staticmethod
    def read(argv, pieces, timeout):
        """Reads each descriptor to its end: those of the output, of the errors, and of the process and its status."""
        until = time.monotonic() + timeout
        out, err, end = pieces
        with selectors.DefaultSelector() as selector:
            for descriptor in pieces:
                selector.register(descriptor, selectors.EVENT_READ)
            try:
                while selector.get_map():
                    ready = selector.select(max(0, until - time.monotonic()))
                    if not ready:
                        os.kill(int(pieces[end].split()[0]), signal.SIGKILL)
                        raise subprocess.TimeoutExpired(argv, timeout, pieces[out], pieces[err])
                    for key, _ in ready:
                        piece = os.read(key.fd, 1 << 16)
                        pieces[key.fd] += piece
                        if not piece:
                            selector.unregister(key.fd)
            finally:
                for descriptor in pieces:
                    os.close(descriptor)
        lines = pieces[end].split()
        if len(lines) != 2:
            raise AssertionError(f"{argv}: no status: {pieces[err].decode(errors='replace')}")
        status = os.waitstatus_to_exitcode(int(lines[1]))
        return subprocess.CompletedProcess(argv, status, pieces[out], pieces[err])
