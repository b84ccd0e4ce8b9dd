"""Walks a mounted tree like `find`, `stat` and `head -c 4096` of every file, up to a limit."""
import collections
import concurrent.futures
import errno
import os
import stat
import struct

import attack  # noqa: F401 (finds tests/support)
import containers
from tensors import Tensor

MAX_ENTRIES = 4_000
MAX_PER_DIRECTORY = 1_500
MAX_READS = 400
MAX_DOCUMENT = 32 << 20
MAX_REQUESTS = 3 * MAX_ENTRIES  # about
DOCUMENTS = ("metadata.json", "metadata.toml", "tensors.json", "graph.json", "warnings.txt")
HONEST = [Tensor("encoder/weight", "float32", (3, 20), struct.pack("<60f", *range(60))), Tensor("bias", "int8", (5,), b"12345")]


def write_honest(directory):
    containers.write_safetensors(os.path.join(directory, "model.safetensors"), HONEST, {"format": "pt"})


def read_honest(point):
    """Reads the regular model that was mounted beside an attack; returns whether every byte is correct."""
    for tensor in HONEST:
        with open(os.path.join(point, "tensors", tensor.name), "rb") as file:
            if file.read() != tensor.data:
                return False
    with open(os.path.join(point, "metadata.json"), "rb") as file:
        return b'"safetensors"' in file.read()


def read_file(path, name):
    """Reads the beginning of a file, and a whole document; returns the number of read calls."""
    reads = 1
    with open(path, "rb", buffering=0) as file:
        if name in DOCUMENTS:
            while file.tell() < MAX_DOCUMENT and file.read(1 << 17):
                reads += 1
        else:
            file.read(4096)
    return reads


def walk(root):
    """Breadth first. {"entries", "reads", "requests", "errors": {name of errno: count}}"""
    queue = collections.deque([root])
    entries = reads = requests = 0
    errors = collections.Counter()
    while queue and entries < MAX_ENTRIES:
        folder = queue.popleft()
        try:
            names = os.listdir(folder)
        except OSError as error:
            errors[errno.errorcode[error.errno]] += 1
            continue
        requests += 4 + len(names) // 50
        for name in names[:MAX_PER_DIRECTORY]:
            path = os.path.join(folder, name)
            entries += 1
            requests += 2
            try:
                mode = os.lstat(path).st_mode
                if stat.S_ISDIR(mode):
                    queue.append(path)
                elif stat.S_ISREG(mode) and (reads < MAX_READS or name in DOCUMENTS):
                    requests += 2 + read_file(path, name)
                    reads += 1
            except OSError as error:
                errors[errno.errorcode[error.errno]] += 1
    return {"entries": entries, "reads": reads, "requests": requests, "errors": dict(errors)}


def walk_at_once(root, readers):
    """Walks by several threads: what all of them together did."""
    with concurrent.futures.ThreadPoolExecutor(readers) as pool:
        walks = list(pool.map(walk, [root] * readers))
    total = {key: sum(each[key] for each in walks) for key in ("entries", "reads", "requests")}
    return {**total, "errors": dict(sum((collections.Counter(each["errors"]) for each in walks), collections.Counter()))}
