"""A file system with one directory, accessible to all users, whose server hangs on request of a test."""
import ctypes
import errno
import os
import struct
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
LOOKUP, FORGET, GETATTR, INIT, BATCH_FORGET = 1, 2, 3, 26, 42
FOLDER = 2
FORCE_AND_DETACH = 3


class HungFiles:
    """Mounted in the directory of a test; `folder` is the directory in it. With `hangs` set, requests block until end()."""

    def __init__(self, test):
        if os.geteuid() != 0:
            test.skipTest("only root can mount other file systems")
        self.hangs = False
        self.point = test.path("files")
        self.folder = os.path.join(self.point, "folder")
        os.mkdir(self.point)
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        test.assertEqual(LIBC.mount(b"files", self.point.encode(), b"fuse.other", 0, options.encode()), 0,
                         os.strerror(ctypes.get_errno()))
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()
        test.addCleanup(self.end)

    def end(self):
        """Unmounts it and all mounts below; blocked requests fail."""
        if self.thread.is_alive():
            LIBC.umount2(self.point.encode(), FORCE_AND_DETACH)
            self.thread.join()

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
                _, operation, unique, node = struct.unpack_from("=IIQQ", request)
                if operation in (FORGET, BATCH_FORGET) or self.hangs:
                    continue
                body = self._answer(operation, node)
                os.write(self.device, struct.pack("=IiQ", 16 + len(body), 0 if body else -errno.ENOSYS, unique) + body)
            except OSError as error:
                if error.errno != errno.ENOENT:  # the request was interrupted
                    return os.close(self.device)

    @staticmethod
    def _answer(operation, node):
        def attributes(number):
            return struct.pack("=QQQQQQIIIIIIIIII", number, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)

        return {INIT: struct.pack("=IIIIHHIIHH32x", 7, 31, 1 << 17, 0, 0, 0, 4096, 1, 0, 0),
                LOOKUP: struct.pack("=QQQQII", FOLDER, 0, 0, 0, 0, 0) + attributes(FOLDER),
                GETATTR: struct.pack("=QII", 0, 0, 0) + attributes(node)}.get(operation, b"")
