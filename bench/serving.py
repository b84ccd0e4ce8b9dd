"""Servers of HTTP for the benchmark: weightfs and nginx with the same bytes, and wrk, which reads from both."""
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
import urllib.request

from fetching import free_port
from mounts import Failed

TIMEOUT_S = 30


class WeightfsHttp:
    """`weightfs serve` of one source."""

    def __init__(self, program, source, folder):
        environment = dict(os.environ, WEIGHTFS_CACHE=os.path.join(folder, "cache"))
        self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", source], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        self.url = self.process.stdout.readline().strip() + "tensors/"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def resident(self):
        """Bytes of memory."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return 1024 * int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])


class NginxFiles:
    """nginx with a worker for each processor, which sends the files of a folder by sendfile."""

    def __init__(self, files, folder):
        self.program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if self.program is None:
            raise Failed("the serve benchmark needs nginx")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.config = os.path.join(folder, "files.conf")
        user = "user root;" if os.getuid() == 0 else ""
        temporary = " ".join(f"{kind}_temp_path {folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(self.config, "w") as config:
            config.write(f"""daemon off; {user} worker_processes auto; pid {folder}/files.pid; error_log {folder}/files.log;
events {{ worker_connections 20000; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; {temporary} root {files};
  server {{ listen 127.0.0.1:{self.port}; }} }}
""")

    def __enter__(self):
        self.process = subprocess.Popen([self.program, "-c", self.config], stderr=subprocess.DEVNULL)
        last = time.monotonic() + TIMEOUT_S
        while socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            if self.process.poll() is not None or time.monotonic() > last:
                raise Failed("nginx does not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


class Wrk:
    """Debian's wrk: requests on a number of connections for some seconds."""

    def __init__(self, folder):
        self.program = shutil.which("wrk")
        if self.program is None:
            raise Failed("the serve benchmark needs wrk")
        self.script = os.path.join(folder, "small.lua")
        with open(self.script, "w") as file:
            file.write("""local n = 0
function request()
  n = (n * 7919 + 1) % 10000
  return wrk.format("GET", string.format("%s%05d", os.getenv("PREFIX"), n))
end
""")

    def run(self, url, connections, seconds, *words, prefix=""):
        command = [self.program, f"-t{min(connections, 2)}", f"-c{connections}", f"-d{seconds}", "--timeout", "60s", *words, url]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PREFIX=prefix))
        if done.returncode != 0 or "Socket errors" in done.stdout and "timeout 0" not in done.stdout:
            raise Failed(f"wrk: {done.stdout}{done.stderr}")
        return done.stdout

    def bytes_per_second(self, url, connections, seconds):
        number, unit = re.search(r"Transfer/sec:\s+([\d.]+)(\w+)", self.run(url, connections, seconds)).groups()
        return float(number) * UNITS[unit]

    def requests_per_second(self, url, connections, seconds):
        """The rate of requests for 10,000 files, in an order that repeats."""
        path = "/" + url.split("/", 3)[3] + "t"
        text = self.run(url, connections, seconds, "-s", self.script, prefix=path)
        return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])


def idle_connections(url, count):
    """Connections that send nothing."""
    address = url.split("/")[2].split(":")
    return [socket.create_connection((address[0], int(address[1]))) for _ in range(count)]


def write_names(path, count):
    """A safetensors file with this number of tensors of one byte: t0000000, t0000001, …"""
    entries = (f'"t{i:07}":{{"dtype":"U8","shape":[],"data_offsets":[{i},{i + 1}]}}' for i in range(count))
    header = ("{" + ",".join(entries) + "}").encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(count))


def listing_seconds(url, count):
    """Duration of a page of 1,000 names in the middle."""
    request = urllib.request.Request(f"{url}?after=t{count // 2:07}&limit=1000", headers={"Accept": "application/json"})
    started = time.perf_counter()
    with urllib.request.urlopen(request) as response:
        text = response.read()
    spent = time.perf_counter() - started
    if len(json.loads(text)) != 1000:
        raise Failed(f"a listing of {len(text)} bytes")
    return spent


class SlowClients:
    """slowhttptest with 1,000 connections, once they are open."""
    MODES = {"-H": "slow headers", "-B": "slow bodies", "-X": "slow readers", "-R": "requests of many ranges"}

    def __init__(self, mode, url):
        self.program = shutil.which("slowhttptest")
        if self.program is None:
            raise Failed("the serve benchmark needs slowhttptest")
        self.command = [self.program, mode, "-c", "1000", "-r", "1000", "-i", "5", "-l", "60", "-u", url, "-p", "60"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        time.sleep(3)  # it opens 1,000 connections per second
        if self.process.poll() not in (None, 0):
            raise Failed(f"slowhttptest: status {self.process.returncode}")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
