"""What weightfs shows of files, by one `weightfs serve`."""
import http.client
import io
import json
import os
import signal
import subprocess
from urllib.parse import quote, urlsplit

import numpy

import loaders

WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
OF_NUMPY = ("npy", "npz", "pkl", "joblib")
OF_FILES = ("zip", "tar")


class Failed(Exception):
    """weightfs does not deliver a file: its sentence."""


class Shown:
    """Serves a folder until close()."""

    def __init__(self, folder, cache):
        environment = dict(os.environ, WEIGHTFS_CACHE=cache)
        self.process = subprocess.Popen([WEIGHTFS, "serve", "--listen", "127.0.0.1:0", folder], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        url = urlsplit(self.process.stdout.readline().strip())
        self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)

    def close(self):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()

    def get(self, *names):
        self.connection.request("GET", "/" + "/".join(quote(name) for name in names), headers={"Accept": "application/json"})
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise Failed(f"{response.status} {body.decode(errors='replace').strip()}")
        return body

    def tensors(self, model, suffix):
        """[(name, value)], and the names of those that are refused."""
        found, refused = [], []
        for entry in json.loads(self.get(*model, "tensors.json"))["tensors"]:
            name = "" if suffix == "npy" else entry["name"]
            try:
                if entry.get("refused"):
                    raise Failed("refused")
                found.append((name, self.value(model, suffix, entry)))
            except Failed:
                refused.append(name)
        return found, refused

    def value(self, model, suffix, entry):
        if suffix not in OF_NUMPY:
            return tuple(entry["shape"]), self.get(*model, "tensors", *entry["path"].split("/"))
        return loaders.of_array(numpy.load(io.BytesIO(self.get(*model, "npy", *f"{entry['path']}.npy".split("/"))),
                                           allow_pickle=False))

    def files(self, model, folder=()):
        found, refused = [], []
        listing = json.loads(self.get(*model, "files", *folder, ""))
        for entry in listing:
            name = entry["name"].rstrip("/")
            path = (*folder, name)
            if entry["is_dir"]:
                inner = self.files(model, path)
                found += inner[0]
                refused += inner[1]
                continue
            try:
                found.append(("/".join(path).replace("%2F", "/"), self.get(*model, "files", *path)))
            except Failed:
                refused.append("/".join(path))
        return found, refused

    def is_incomplete(self, model):
        return "incomplete" in json.loads(self.get(*model, "metadata.json"))
