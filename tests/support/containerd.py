"""Debian's containerd for tests: a daemon below a directory of the test, and its client `ctr`."""
import os
import shutil
import signal
import subprocess
import unittest

from mounting import LIMIT_S, until
from servers import ended_with_parent, path_of

CONFIG = """version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/socket"
[ttrpc]
  address = "{folder}/ttrpc"
[debug]
  level = "error"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
"""


class Containerd:
    """It ends with `test`, which it skips where it cannot run."""

    def __init__(self, test):
        if path_of("containerd") is None or path_of("ctr") is None:
            raise unittest.SkipTest("needs containerd, which is not installed")
        if os.geteuid() != 0:
            raise unittest.SkipTest("containerd needs root")
        self.folder = test.path("containerd")
        os.mkdir(self.folder)
        config = os.path.join(self.folder, "config.toml")
        with open(config, "w") as file:
            file.write(CONFIG.format(folder=self.folder))
        log = open(os.path.join(self.folder, "log"), "w+")
        test.addCleanup(log.close)
        self.process = subprocess.Popen([path_of("containerd"), "--config", config], stdin=subprocess.DEVNULL, stdout=log,
                                        stderr=log, preexec_fn=ended_with_parent(signal.SIGKILL))
        test.addCleanup(self.close)
        until(lambda: self.process.poll() is not None or self.run("version").returncode == 0, "containerd does not start")
        if self.process.poll() is not None:
            log.seek(0)
            raise AssertionError(log.read())

    def close(self):
        self.process.terminate()
        self.process.wait(LIMIT_S)
        shutil.rmtree(self.folder)

    def run(self, *words):
        return subprocess.run([path_of("ctr"), "--address", os.path.join(self.folder, "socket"), *words], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=LIMIT_S)

    def ctr(self, *words):
        """What it prints."""
        done = self.run(*words)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: {(done.stdout + done.stderr).decode(errors='replace')}")
        return done.stdout
