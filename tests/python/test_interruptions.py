"""Interruptions, forks and lost children: nothing hangs, and no process or directory is left."""
import contextlib
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

from python_testing import LIMIT_S, PACKAGE, PythonTestCase, processes_of, until, weightfs
import demo

QUANTISED = "blk.0.attn_q.weight"  # needs the server
OTHER = "blk.0.attn_k.weight"

# As a signal leaves the lock of a Popen that comes between acquire() and the `try` behind it.
INTERRUPTED_LOCK = """
import subprocess, sys, threading, weightfs

class Lock:
    def __init__(self):
        self.lock = threading.Lock()
    def acquire(self, *arguments):
        if self.lock.acquire(*arguments):
            raise KeyboardInterrupt
        return False
    def release(self):
        self.lock.release()
    def __enter__(self):
        self.lock.acquire()
    def __exit__(self, *_):
        self.lock.release()

class Popen(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._waitpid_lock = Lock()

subprocess.Popen = Popen
m = weightfs.open(sys.argv[1])
for _ in range(3):
    try:
        m[sys.argv[2]]
    except KeyboardInterrupt:
        pass
m.close()
"""

# Signals at ever later moments of opening, reading and closing.
INTERRUPTED_ALWAYS = """
import faulthandler, numpy, signal, sys, weightfs  # NumPy is not usable after its import was interrupted
faulthandler.dump_traceback_later(100, exit=True)
is_running = count = 0
def interrupt(*_):
    global is_running
    if is_running:
        is_running = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
for number in range(80):
    try:
        is_running = True
        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.002 * number)
        while is_running:  # Python prints and drops what is raised in a finaliser
            with weightfs.open(sys.argv[1]) as m:
                for name in sys.argv[2:]: m[name]
    except KeyboardInterrupt:
        pass
    count += 1
with weightfs.open(sys.argv[1]) as m:
    print(count, m[sys.argv[2]].shape)
"""

# Makes the directory of its socket, closes its output and stays.
SILENT_PROGRAM = b"""#!/bin/sh
mkdir "$(dirname "${3#unix:}")"
touch "$(dirname "${3#unix:}")/other"
exec >&-
exec sleep 600
"""


@contextlib.contextmanager
def interrupted_after(seconds):
    """Raises KeyboardInterrupt in the block, once."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Interruptions(PythonTestCase):
    def setUp(self):
        super().setUp()
        self.source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")

    def python(self, program, *arguments):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=2 * LIMIT_S,
                              env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_lock_of_an_interrupted_wait_does_not_hang_the_module(self):
        self.python(INTERRUPTED_LOCK, self.source, QUANTISED)

    def test_file_whose_opening_was_interrupted_ends_silently(self):
        self.python("from weightfs._local import LocalFile; LocalFile.__new__(LocalFile)")

    def test_signals_at_any_moment_leave_nothing_and_hang_nothing(self):
        done = subprocess.run([sys.executable, "-c", INTERRUPTED_ALWAYS, self.source, QUANTISED, OTHER], capture_output=True,
                              text=True, timeout=2 * LIMIT_S, env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual((done.returncode, done.stdout), (0, "80 (32, 32)\n"), done.stderr)
        self.assertRegex(done.stderr, r"\A(Exception ignored in: (?s:.*?)KeyboardInterrupt: ?\n)*\Z")
        until(lambda: not os.listdir(self.sockets), lambda: f"left behind: {os.listdir(self.sockets)}")

    def test_interrupted_close_is_completed_by_the_next_one(self):
        model = self.open(self.source)
        model[QUANTISED]
        pid = model._origin.reader._child.process.pid
        os.kill(pid, signal.SIGSTOP)
        with self.assertRaises(KeyboardInterrupt), interrupted_after(0.2):
            model.close()
        os.kill(pid, signal.SIGCONT)
        model.close()
        self.assertRaises(ProcessLookupError, os.kill, pid, 0)
        self.assertEqual(os.listdir(self.sockets), [])

    def test_interrupted_start_leaves_no_process_and_no_directory(self):
        program = self.write("program", SILENT_PROGRAM)
        os.chmod(program, 0o755)
        with unittest.mock.patch.dict(os.environ, WEIGHTFS=program):
            with self.assertRaises(KeyboardInterrupt), interrupted_after(1):
                weightfs.open("https://127.0.0.1/m.gguf")
        self.assertEqual((os.listdir(self.sockets), processes_of(self.sockets)), ([], {}))

    def test_server_that_ends_when_it_is_started_is_an_error_with_its_sentence(self):
        program = self.write("program", b"#!/bin/sh\necho 'weightfs: no memory' >&2\necho unix:x\n")
        os.chmod(program, 0o755)
        with unittest.mock.patch.dict(os.environ, WEIGHTFS=program):
            self.assertRaisesRegex(weightfs.Error, "^no memory$", weightfs.open, "https://127.0.0.1/m.gguf")

    def test_model_that_is_closed_while_its_server_starts_has_none(self):
        from weightfs._connection import Pool
        model = self.open(self.source)

        def request(pool, *arguments):
            model.close()
            return original(pool, *arguments)
        original = Pool.request
        with unittest.mock.patch.object(Pool, "request", request):
            self.assertRaisesRegex(weightfs.Error, "closed", lambda: model[QUANTISED])
        self.assertEqual(os.listdir(self.sockets), [])

    def test_child_for_which_other_code_waited_has_ended(self):
        model = self.open(self.source)
        expected = model[QUANTISED].tobytes()
        pid = model._origin.reader._child.process.pid
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(os.waitpid(pid, 0)[0], pid)
        self.assertEqual(model[QUANTISED].tobytes(), expected)
        self.assertEqual(len(os.listdir(self.sockets)), 1)

    def test_ignored_ends_of_children_do_not_change_what_is_raised(self):
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGCHLD, before)
        with weightfs.open(self.source) as model:
            self.assertEqual(model[QUANTISED].shape, (32, 32))
        with self.assertRaisesRegex(weightfs.Error, "missing.gguf: No such file or directory"):
            weightfs.open(self.path("missing.gguf"))
        self.write("bad.gguf", b"GGUF")
        with self.assertRaises(weightfs.Error) as caught:
            weightfs.open(self.path("bad.gguf"))
        self.assertNotIn("newer", str(caught.exception))

    def test_handler_of_a_signal_can_close_the_model(self):
        """Also where another thread, or the interrupted code itself, uses the connections."""
        model = self.open(self.source)
        model[QUANTISED]
        before = signal.signal(signal.SIGALRM, lambda *_: model.close())
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with self.assertRaisesRegex(weightfs.Error, "closed"):
            while True:
                model[QUANTISED]
        self.assertEqual(os.listdir(self.sockets), [])

    def test_lack_of_descriptors_does_not_end_the_server(self):
        model = self.open(self.source)
        expected = model[QUANTISED].tobytes()
        child = model._origin.reader._child
        for connection in iter(child.pool.take, None):
            connection.close()  # the next request needs a socket
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        lowest = os.open("/dev/null", os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            with self.assertRaisesRegex(weightfs.Error, "Too many open files"):
                model[QUANTISED]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        self.assertEqual(model[QUANTISED].tobytes(), expected)
        self.assertIs(model._origin.reader._child, child)


class Forks(PythonTestCase):
    def status_of(self, work):
        """The exit status of a forked process that does this, and is killed if it takes too long."""
        pid = os.fork()
        if pid == 0:
            signal.alarm(LIMIT_S // 2)
            try:
                work()
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1]

    def test_fork_while_a_thread_maps_a_file_does_not_hang(self):
        model = self.open(self.sample())
        file, held, ended = model._origin.files[0], threading.Event(), threading.Event()

        def hold():
            with file._lock:
                held.set()
                ended.wait(LIMIT_S)
        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(LIMIT_S)
        try:
            self.assertEqual(self.status_of(lambda: self.assertEqual(model["bias"].tolist(), [0, 1, 2, 3])), 0)
            self.assertEqual(self.status_of(model.close), 0)
        finally:
            ended.set()
            thread.join(LIMIT_S)

    @unittest.skipUnless(importlib.util.find_spec("fsspec"), "python3-fsspec is not installed")
    def test_fork_while_a_thread_opens_a_model_of_fsspec_does_not_hang(self):
        self.use_fsspec()
        import fsspec
        files, source = fsspec.filesystem("weightfs"), self.sample()
        held, ended = threading.Event(), threading.Event()

        def opened(*arguments, **options):
            if threading.current_thread() is thread:
                held.set()
                ended.wait(LIMIT_S)
            return weightfs.Model(*arguments, **options)
        thread = threading.Thread(target=files.info, args=(f"{source}!/",))
        with unittest.mock.patch("weightfs.fsspec_filesystem.Model", opened):
            thread.start()
            held.wait(LIMIT_S)
            try:
                self.assertEqual(self.status_of(lambda: files.info(f"{source}!/tensors")), 0)
            finally:
                ended.set()
                thread.join(LIMIT_S)

    def test_process_that_was_forked_does_not_end_the_server_when_it_closes_the_model(self):
        model = self.open(self.sample("q.gguf", demo.ggml_layers(1), "gguf"))
        model[QUANTISED]
        child = model._origin.reader._child
        self.assertEqual(self.status_of(model.close), 0)
        model[OTHER]
        self.assertIs(model._origin.reader._child, child)


if __name__ == "__main__":
    unittest.main()
