"""Models that are pulled by the API of the Hub and from a registry: weightfs, nginx and docker-registry with the same bytes."""
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

from fetching import free_port
from mounts import Failed
from serving import TIMEOUT_S, NginxFiles, WeightfsHttp

NAME = "large"


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class DockerRegistry:
    """docker-registry with one blob in the repository `NAME`, which is a hard link to `file`."""

    def __init__(self, file, digest, folder):
        self.program = shutil.which("docker-registry")
        if self.program is None:
            raise Failed("the pulls benchmark needs docker-registry")
        self.port = free_port()
        self.root = os.path.join(folder, "registry")
        store = os.path.join(self.root, "docker", "registry", "v2")
        blob = os.path.join(store, "blobs", "sha256", digest[:2], digest)
        link = os.path.join(store, "repositories", NAME, "_layers", "sha256", digest)
        os.makedirs(blob)
        os.makedirs(link)
        os.link(file, os.path.join(blob, "data"))
        with open(os.path.join(link, "link"), "w") as out:
            out.write(f"sha256:{digest}")
        self.url = f"http://127.0.0.1:{self.port}/v2/{NAME}/blobs/sha256:{digest}"
        self.config = os.path.join(folder, "registry.yml")
        with open(self.config, "w") as out:
            out.write(f"version: 0.1\nlog:\n  level: error\n  accesslog:\n    disabled: true\nstorage:\n  filesystem:\n"
                      f"    rootdirectory: {self.root}\nhttp:\n  addr: 127.0.0.1:{self.port}\n")

    def __enter__(self):
        self.process = subprocess.Popen([self.program, "serve", self.config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        last = time.monotonic() + TIMEOUT_S
        while socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            if self.process.poll() is not None or time.monotonic() > last:
                raise Failed("docker-registry does not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def await_digest(url, digest):
    """Waits until the manifest is made, which has the digest of the file."""
    for _ in range(TIMEOUT_S):
        try:
            with urllib.request.urlopen(f"{url}/v2/{NAME}/manifests/latest") as response:
                found = [layer["digest"] for layer in json.load(response)["layers"]]
            if found != [f"sha256:{digest}"]:
                raise Failed(f"the manifest has {found}, not {digest}")
            return
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 429:
                raise Failed(f"the manifest: status {error.code}") from error
            time.sleep(1)
    raise Failed("the manifest is not made")


@contextlib.contextmanager
def serving(bench, source):
    """Starts the servers; the URL of the file at each of them: `hub` and `blob` are those of weightfs."""
    digest = sha256_of(source)
    files = os.path.join(bench.folder, "pulled")
    os.mkdir(files)
    os.link(source, os.path.join(files, "file"))
    with (WeightfsHttp(bench.weightfs, source, bench.folder) as ours, NginxFiles(files, bench.folder) as nginx,
          DockerRegistry(source, digest, bench.folder) as registry):
        base = ours.url.removesuffix("/tensors/")
        await_digest(base, digest)
        name = os.path.basename(source)
        yield {"nginx": f"{nginx.url}file", "hub": f"{base}/local/{name}/resolve/main/{name}", "registry": registry.url,
               "blob": f"{base}/v2/{NAME}/blobs/sha256:{digest}"}
    shutil.rmtree(files)
    shutil.rmtree(registry.root)
