"""Hosts on one Ethernet for a test: network namespaces, connected by a bridge. Nothing leaves them. They end with the test, also if
it is killed."""
import ctypes
import os
import subprocess
import threading
import unittest

from servers import path_of

CLONE_NEWNET = 0x40000000  # unshare(2), setns(2)

libc = ctypes.CDLL(None, use_errno=True)


def current():
    """A descriptor of the network namespace of this thread."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def new_namespace():
    before = current()
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise unittest.SkipTest(f"no network namespace here: {os.strerror(ctypes.get_errno())}")
        made = current()
        libc.setns(before, CLONE_NEWNET)
        return made
    finally:
        os.close(before)


class Host:
    """`with host:` moves this thread to the network of the host, and the processes that it starts."""

    def __init__(self, test, address):
        self.address = address
        self.namespace = new_namespace()
        test.addCleanup(os.close, self.namespace)
        self.outer = threading.local()

    def __enter__(self):
        self.outer.stack = getattr(self.outer, "stack", []) + [current()]
        self.move(self.namespace)
        return self

    def __exit__(self, *_):
        before = self.outer.stack.pop()
        self.move(before)
        os.close(before)

    @staticmethod
    def move(namespace):
        if libc.setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    def ip(self, *commands):
        """Runs commands of ip(8) on the host."""
        with self:
            done = subprocess.run([path_of("ip"), "-batch", "-"], input="\n".join(commands), capture_output=True, text=True)
        if done.returncode != 0:
            raise unittest.SkipTest(f"no network namespaces with a bridge here: {done.stderr.strip().splitlines()[0]}")


class Ethernet:
    """The bridge that connects the hosts."""

    def __init__(self, test):
        self.test = test
        self.bridge = Host(test, None)
        self.bridge.ip("link add bridge type bridge", "link set bridge up")
        self.count = 0

    def host(self, *addresses):
        """A host with these addresses (10.77.0.1/24); it reaches the hosts of the same networks only."""
        host = Host(self.test, addresses[0].partition("/")[0])
        port = f"port{self.count}"
        self.count += 1
        self.bridge.ip(f"link add {port} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{host.namespace}",
                       f"link set {port} master bridge up")
        host.ip("link set lo up", *(f"address add {address} dev eth0" for address in addresses), "link set eth0 up")
        return host
