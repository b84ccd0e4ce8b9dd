"""The server process of a model: threads and forked processes share it, and it never outlives them."""
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import unittest

from python_testing import LIMIT_S, PACKAGE, WEIGHTFS, PythonTestCase, processes_of, until, weightfs
import demo

# Reads a quantised tensor, which needs the server, prints "ready" and does what the last word says.
READER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import weightfs
m = weightfs.open(sys.argv[2])
m["blk.0.attn_q.weight"]
print("ready", m._origin.reader._child.process.pid, flush=True)
{end}
"""


# Workers that are spawned get the model by pickle.
SPAWNING = """
import multiprocessing, sys
import weightfs

def read(arguments):
    return float(arguments[0][arguments[1]].sum())

if __name__ == "__main__":
    m = weightfs.open(sys.argv[1])
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(read, [(m, name) for name in sys.argv[2:]]))
"""


def sum_of(model, name):
    return float(model[name].sum())


def kill_server_of(model):
    """Kills the server, and waits until it has ended; the module has not noticed yet."""
    pid = model._origin.reader._child.process.pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


class Processes(PythonTestCase):
    def setUp(self):
        super().setUp()
        self.source = self.sample("q.gguf", demo.ggml_layers(2), "gguf")
        self.names = [tensor.name for tensor in demo.ggml_layers(2)]

    def expected(self):
        with weightfs.open(self.source) as model:
            return {name: sum_of(model, name) for name in self.names}

    def reader(self, end):
        """A process that has started a server; it, and the pid of the server."""
        process = subprocess.Popen([sys.executable, "-c", READER.format(end=end), PACKAGE, self.source], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        word, pid = process.stdout.readline().split()
        self.assertEqual(word, "ready")
        return process, int(pid)

    def assert_ends(self, process, status):
        self.assertEqual(process.wait(LIMIT_S), status)
        until(lambda: not processes_of(self.tmp), lambda: f"does not end: {processes_of(self.tmp)}")
        until(lambda: not os.listdir(self.sockets), lambda: f"left behind: {os.listdir(self.sockets)}")

    def test_threads_read_one_model(self):
        expected, found = self.expected(), []
        model = self.open(self.source)

        def read(first):
            for number in range(40):
                name = self.names[(first + number) % len(self.names)]
                found.append((name, sum_of(model, name)))

        threads = [threading.Thread(target=read, args=(first,)) for first in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        self.assertEqual(len(found), 16 * 40)
        self.assertEqual([each for each in found if each[1] != expected[each[0]]], [])
        self.assertEqual(len(os.listdir(self.sockets)), 1)

    def test_forked_workers_use_the_server_of_their_parent(self):
        expected = self.expected()
        global SHARED
        SHARED = self.open(self.source)
        sum_of(SHARED, self.names[2])
        with multiprocessing.get_context("fork").Pool(8) as pool:
            found = pool.map(of_shared, self.names * 4)
        self.assertEqual(found, [expected[name] for name in self.names * 4])
        self.assertEqual(len(os.listdir(self.sockets)), 1)
        self.assertEqual(sum_of(SHARED, self.names[2]), expected[self.names[2]])

    def test_fork_while_threads_read_does_not_hang(self):
        expected, ended = self.expected(), threading.Event()
        global SHARED
        SHARED = self.open(self.source)

        def read():
            while not ended.is_set():
                sum_of(SHARED, self.names[2])

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                with multiprocessing.get_context("fork").Pool(4) as pool:
                    found = pool.map_async(of_shared, self.names).get(LIMIT_S)
                self.assertEqual(found, [expected[name] for name in self.names])
        finally:
            ended.set()
            for thread in threads:
                thread.join(LIMIT_S)

    def test_spawned_workers_open_the_source_again(self):
        expected = self.expected()
        model = self.open(self.source)
        self.assertEqual(sum_of(pickle.loads(pickle.dumps(model)), self.names[2]), expected[self.names[2]])
        program = self.write("program.py", SPAWNING.encode())
        done = subprocess.run([sys.executable, program, self.source, *self.names[:4]], capture_output=True, text=True,
                              timeout=LIMIT_S, env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual((done.returncode, done.stdout), (0, f"{[expected[name] for name in self.names[:4]]}\n"), done.stderr)

    def test_server_that_is_killed_is_started_again(self):
        expected = self.expected()
        model = self.open(self.source)
        sum_of(model, self.names[2])
        kill_server_of(model)
        self.assertEqual(sum_of(model, self.names[3]), expected[self.names[3]])

    def test_exit_leaves_nothing(self):
        process, _ = self.reader("")
        self.assert_ends(process, 0)

    def test_interrupted_read_leaves_nothing(self):
        process, _ = self.reader("while True: m['blk.0.attn_q.weight']")
        process.send_signal(signal.SIGINT)
        self.assert_ends(process, -signal.SIGINT)

    def test_model_is_used_after_an_interrupted_read(self):
        process, server = self.reader("""
import signal
is_reading = False
def interrupt(*_):
    global is_reading
    if is_reading:  # not while the loop goes on
        is_reading = False
        raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.05)
count = 0
while count < 10:
    try:
        is_reading = True
        while True: m["blk.0.attn_q.weight"]
    except KeyboardInterrupt:
        count += 1
signal.setitimer(signal.ITIMER_REAL, 0)
print(m["blk.0.attn_q.weight"].sum(), m._origin.reader._child.process.pid, flush=True)
""")
        total, pid = process.stdout.readline().split()
        self.assertAlmostEqual(float(total), self.expected()["blk.0.attn_q.weight"], 3)
        self.assertEqual(int(pid), server)
        self.assert_ends(process, 0)

    def test_no_resource_is_left_to_the_collector(self):
        """Threads read while the model is closed, and a forked process closes it: no socket, pipe or process is left open."""
        program = """
import os, sys, threading, weightfs
m = weightfs.open(sys.argv[1])
m["blk.0.attn_q.weight"]
pid = os.fork()
if pid == 0:
    m["blk.0.attn_q.weight"]
    m.close()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
def read():
    try:
        while True: m["blk.0.attn_q.weight"]
    except weightfs.Error as error:
        assert "closed" in str(error), error
threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads: thread.start()
for _ in range(20): m["blk.0.attn_k.weight"]
m.close()
for thread in threads: thread.join()
"""
        done = subprocess.run([sys.executable, "-X", "dev", "-c", program, self.source], capture_output=True, text=True,
                              timeout=LIMIT_S, env=dict(os.environ, PYTHONPATH=PACKAGE))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exception_leaves_nothing(self):
        process, _ = self.reader("raise ValueError")
        self.assert_ends(process, 1)

    def test_sigterm_leaves_nothing(self):
        process, _ = self.reader("time.sleep(600)")
        folder, = os.listdir(self.sockets)
        self.assertEqual(os.stat(self.path("sockets", folder)).st_mode & 0o777, 0o700)
        process.terminate()
        self.assert_ends(process, -signal.SIGTERM)

    def test_sigkill_leaves_nothing(self):
        process, _ = self.reader("time.sleep(600)")
        process.kill()
        self.assert_ends(process, -signal.SIGKILL)

    def test_exit_without_cleanup_leaves_nothing(self):
        process, _ = self.reader("os._exit(3)")
        self.assert_ends(process, 3)

    def test_worker_that_exits_does_not_end_the_server_of_its_parent(self):
        process, server = self.reader("""
pid = os.fork()
if pid == 0: m["blk.0.attn_k.weight"]; sys.exit(0)
os.waitpid(pid, 0)
m["blk.0.attn_v.weight"]
os.kill(m._origin.reader._child.process.pid, 0)
""")
        self.assert_ends(process, 0)

    def serve(self, path):
        process = subprocess.Popen([WEIGHTFS, "serve", "--listen", f"unix:{path}", "--until-eof", self.source],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), f"unix:{path}\n")
        return process

    def test_server_makes_the_directory_of_its_socket_and_removes_it(self):
        process = self.serve(self.path("own", "socket"))
        self.assertEqual(os.stat(self.path("own")).st_mode & 0o777, 0o700)
        process.stdin.write("input does not end it\n")
        process.stdin.flush()
        self.assertIsNone(process.poll())
        process.stdin.close()
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertFalse(os.path.exists(self.path("own")))

    def test_server_keeps_a_directory_that_exists(self):
        os.mkdir(self.path("other"))
        process = self.serve(self.path("other", "socket"))
        process.stdin.close()
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertEqual(os.listdir(self.path("other")), [])

    def test_failed_start_leaves_nothing(self):
        with self.assertRaisesRegex(weightfs.NotFound, "No such file or directory"):
            weightfs.open(self.path("missing.gguf"))
        with self.assertRaises(weightfs.Refused):
            weightfs.open("https://10.0.0.1/x.gguf", require_digest=True)
        self.assertEqual(os.listdir(self.sockets), [])


def of_shared(name):
    return sum_of(SHARED, name)


SHARED = None

if __name__ == "__main__":
    unittest.main()
