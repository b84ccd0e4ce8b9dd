"""Long headers of models at a URL, for the benchmark: from the start of a command to its end, with an empty cache."""
import json
import os
import shutil
import struct
import subprocess
import time

# Names in the header, and the most seconds at 20 ms of latency.
SIZES = {"0.35 MB": (5_000, 0.06), "75 MB": (1_000_000, 1.5)}


def write(path, count):
    """A safetensors file with `count` empty tensors."""
    text = json.dumps({f"model.layers.{i}.weight": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]} for i in range(count)},
                      separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)


def seconds(bench, url, verb="ls", **environment):
    shutil.rmtree(bench.cache(), ignore_errors=True)
    start = time.monotonic()
    subprocess.run([bench.weightfs, verb, url], stdout=subprocess.DEVNULL, check=True,
                   env=dict(os.environ, WEIGHTFS_CACHE=bench.cache(), **environment))
    return time.monotonic() - start
