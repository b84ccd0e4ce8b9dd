"""A FUSE server with false status: a root with an extended attribute, and .weightfs/summary.json."""
import itertools
import os
import stat
import struct
import threading

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE = 1, 2, 3, 14, 15, 18
GETXATTR, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 22, 25, 26, 36, 42
ENOSYS, ENODATA, ENOENT = 38, 61, 2
ROOT, DIRECTORY, STATUS = 1, 2, 3


class FalseStatusServer:
    """Serves an open, mounted /dev/fuse until it is unmounted. A `status` of None is an endless file."""

    def __init__(self, device, user, pid, status):
        self.device, self.user, self.pid, self.status = device, user, pid, status
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:  # ENODEV: unmounted
                return os.close(self.device)
            _, operation, unique, node = struct.unpack_from("=IIQQ", request)
            if operation in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = self._answer(operation, node, request[40:])
            error, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
            try:
                os.write(self.device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
            except OSError:  # ENOENT: the request was interrupted
                pass

    def _answer(self, operation, node, body):
        if operation == INIT:
            return struct.pack("=IIIIHHIIHH32x", 7, 31, 1 << 17, 0, 0, 0, 4096, 1, 0, 0)
        if operation == GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(node)
        if operation == LOOKUP:
            found = {(ROOT, b".weightfs\0"): DIRECTORY, (DIRECTORY, b"summary.json\0"): STATUS}.get((node, body))
            return ENOENT if found is None else struct.pack("=QQQQII", found, 0, 0, 0, 0, 0) + self._attributes(found)
        if operation == GETXATTR:
            return self.pid if body[8:] == b"user.weightfs.pid\0" else ENODATA
        if operation == OPEN:
            return struct.pack("=QII", 0, 1, 0)  # FOPEN_DIRECT_IO
        if operation == READ:
            _, offset, size = struct.unpack_from("=QQI", body)
            return bytes(itertools.repeat(32, size)) if self.status is None else self.status[offset:offset + size]
        return b"" if operation in (RELEASE, FLUSH) else ENOSYS

    def _attributes(self, node):
        mode = stat.S_IFREG | 0o444 if node == STATUS else stat.S_IFDIR | 0o555
        return struct.pack("=QQQQQQIIIIIIIIII", node, 1 << 40, 0, 0, 0, 0, 0, 0, 0, mode, 1, self.user, self.user, 0, 4096, 0)
