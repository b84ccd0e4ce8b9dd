"""A network of its own for a test, in which the machine has public and private addresses. Nothing leaves it."""
import ctypes
import fcntl
import os
import socket
import struct
import threading
import unittest

CLONE_NEWNET = 0x40000000  # unshare(2)
SIOCSIFFLAGS, SIOCSIFADDR = 0x8914, 0x8916  # netdevice(7)
IFF_UP = 1

libc = ctypes.CDLL(None, use_errno=True)


def add_address(index, address):
    """To the loopback interface, as its alias with this number; 0 is its own address."""
    name = b"lo" if index == 0 else b"lo:%d" % index
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        if index > 0:
            fcntl.ioctl(sock, SIOCSIFADDR, struct.pack("16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton(address)))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sH22x", name, IFF_UP))


def enter(addresses):
    if libc.unshare(CLONE_NEWNET) != 0:
        raise unittest.SkipTest(f"no network namespace here: {os.strerror(ctypes.get_errno())}")
    for index, address in enumerate(["127.0.0.1", *addresses]):
        add_address(index, address)


def in_network(*addresses):
    """A test that runs in a network namespace with these addresses. Only its thread is in it, with the sockets, the threads and the
    processes that it creates."""
    def decorate(test):
        def wrapped(self):
            problems = []

            def work():
                try:
                    enter(addresses)
                    test(self)
                except BaseException as error:
                    problems.append(error)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            if problems:
                raise problems[0]
        wrapped.__name__ = test.__name__
        return wrapped
    return decorate
