"""The part of systemd that a service sees: a socket for notifications, a store of descriptors, and a socket that starts brokers of
backing files."""
import array
import os
import pwd
import select
import socket
import subprocess
import threading
import time

LIMIT_S = 60
MAX_MESSAGE = select.PIPE_BUF  # systemd ignores longer messages


class ServiceManager:
    """Listens at `path`. `notifications` has every notification as a dict, in order; `stored` the descriptors by name."""

    def __init__(self, path):
        self.path = path
        self.notifications = []
        self.stored = {}
        self._news = threading.Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.sendto(b"END=1", self.path)
        self._thread.join()
        self._socket.close()
        for descriptor in self.stored.values():
            os.close(descriptor)

    def environment(self, **more):
        return {**os.environ, "NOTIFY_SOCKET": self.path, **more}

    def wait_for(self, wanted, after=0):
        """The index of the first notification from `after` on for which `wanted` is true."""
        end = time.monotonic() + LIMIT_S
        with self._news:
            while True:
                for i in range(after, len(self.notifications)):
                    if wanted(self.notifications[i]):
                        return i
                left = end - time.monotonic()
                assert left > 0, f"no such notification; received: {self.notifications[after:]}"
                self._news.wait(left)

    def _listen(self):
        while True:
            data, ancillary, flags, _ = self._socket.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(4 * 4))
            if flags & socket.MSG_TRUNC:
                continue
            descriptors = array.array("i")
            for _, _, payload in ancillary:
                descriptors.frombytes(payload)
            notification = dict(line.split("=", 1) for line in data.decode().splitlines())
            if "END" in notification:
                return
            with self._news:
                self._take(notification, list(descriptors))
                self._news.notify_all()

    def _take(self, notification, descriptors):
        # Closing the descriptor of a barrier acknowledges it.
        if notification.get("FDSTORE") == "1":
            self._forget(notification["FDNAME"])
            self.stored[notification["FDNAME"]] = descriptors.pop()
        if notification.get("FDSTOREREMOVE") == "1":
            self._forget(notification["FDNAME"])
        for descriptor in descriptors:
            os.close(descriptor)
        if "BARRIER" not in notification:
            self.notifications.append(notification)

    def _forget(self, name):
        if name in self.stored:
            os.close(self.stored.pop(name))


class BrokerSocket:
    """weightfs-passthrough.socket: listens at `path` for the user nobody. Each connection starts `program` with the user and the
    capability of weightfs-passthrough@.service. `descriptors` is their limit."""

    UNIT = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--bounding-set=-all,+sys_admin",
            "--inh-caps=-all,+sys_admin", "--ambient-caps=-all,+sys_admin")
    COMMAND = 'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=connection exec "$0" service passthrough 3<&"$1"'

    def __init__(self, path, program, descriptors=1024):
        self.path = path
        self._processes = []
        self._news = threading.Condition()
        self._program = program
        self._limit = f"--nofile={descriptors}:{descriptors}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(path)
        os.chown(path, pwd.getpwnam("nobody").pw_uid, -1)
        os.chmod(path, 0o600)
        self._socket.listen()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        for process in self._processes:
            process.kill()
            process.communicate()

    def count(self):
        """How many brokers were started."""
        with self._news:
            return len(self._processes)

    def process(self, number):
        """The process of a broker, in the order of the connections, as soon as it is started."""
        with self._news:
            assert self._news.wait_for(lambda: len(self._processes) > number, LIMIT_S), "no such connection"
            return self._processes[number]

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            with connection:
                number = str(connection.fileno())
                process = subprocess.Popen(["prlimit", self._limit, *self.UNIT, "bash", "-c", self.COMMAND, self._program, number],
                                           pass_fds=(connection.fileno(),), stderr=subprocess.PIPE, text=True)
            with self._news:
                self._processes.append(process)
                self._news.notify_all()
