"""A linked blob: the nginx that serves it, and the carton that links to it."""
import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
import zipfile

from mounts import Failed

TIMEOUT_S = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx:
    """Serves `folder` on loopback: at full speed at url(), with `limit` bytes per second per connection at slow_url(). With a
    `certificate`, which is a file of it and one of its key, also by TLS at the port `encrypted`."""

    def __init__(self, folder, limit, certificate=None):
        self.program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if self.program is None:
            raise Failed("the fetch benchmark needs nginx")
        self.folder = folder
        self.fast, self.slow, self.encrypted = free_port(), free_port(), free_port()
        self.config = os.path.join(folder, "nginx.conf")
        user = "user root;" if os.getuid() == 0 else ""
        temporary = " ".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        tls = "" if certificate is None else (f"server {{ listen 127.0.0.1:{self.encrypted} ssl; "
                                              f"ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}; }}")
        with open(self.config, "w") as config:
            config.write(f"""daemon off; {user} worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{}}
http {{ access_log off; sendfile on; {temporary} root {folder};
  server {{ listen 127.0.0.1:{self.fast}; }} {tls}
  server {{ listen 127.0.0.1:{self.slow}; limit_rate {limit}; }} }}
""")

    def __enter__(self):
        self.process = subprocess.Popen([self.program, "-c", self.config], stderr=subprocess.DEVNULL)
        last = time.monotonic() + TIMEOUT_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.slow)) == 0:
                    return self
            if self.process.poll() is not None or time.monotonic() > last:
                raise Failed(f"nginx does not start; see {self.folder}/nginx.log")
            time.sleep(0.01)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def url(self, name):
        return f"http://127.0.0.1:{self.fast}/{name}"

    def slow_url(self, name):
        return f"http://127.0.0.1:{self.slow}/{name}"


class Delay:
    """A proxy on loopback that passes on what a client sends after `seconds`: the latency of a network."""

    def __init__(self, port, seconds):
        self.target, self.seconds = port, seconds
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.pass_on, args=(client, server, self.seconds), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, 0), daemon=True).start()

    @staticmethod
    def pass_on(source, target, seconds):
        try:
            while piece := source.recv(1 << 20):
                time.sleep(seconds)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def encrypted_url(self, name):
        """Where the target expects TLS."""
        return f"https://127.0.0.1:{self.port}/{name}"


def write_linked_carton(path, digest, url):
    """Writes a carton with one file, model/blob, behind a link."""
    toml = b"spec_version = 1\n"
    with zipfile.ZipFile(path, "w") as carton:
        carton.writestr("carton.toml", toml)
        carton.writestr("MANIFEST", f"carton.toml={hashlib.sha256(toml).hexdigest()}\nmodel/blob={digest}\n")
        carton.writestr("LINKS", f'version = 1\n[urls]\n{digest} = ["{url}"]\n')
    return path
