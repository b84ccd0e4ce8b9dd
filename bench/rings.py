"""One model with requests by io_uring and by /dev/fuse, for the benchmark: both mounts with --offline, each used once. The tensors
are a large one and many of 4 KiB."""
import json
import os
import subprocess
import time

MODES = {"rings": "auto", "device": "off"}
# What is measured: the name of the figures.
RANDOM = {"4 KiB": (4096, 1), "4 KiB, 8 readers": (4096, 8), "1 MiB": (1 << 20, 1)}
WALKS = {"du": ["du", "-s"], "find -ls": ["find", "-ls"]}


def uses_rings(mount):
    with open(os.path.join(mount.path, ".weightfs", "status.json")) as file:
        return json.load(file)["io_uring"]["used"]


def walk(command, folder):
    start = time.perf_counter()
    subprocess.run([command[0], folder, *command[1:]], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def read_all(folder):
    start = time.perf_counter()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb", buffering=0) as file:
            file.read(8192)
    return time.perf_counter() - start


def compare(bench, mount, reader, large, size):
    """One round of the rates, by mode and measure. `large` is the name of the large tensor's file of `size` bytes, `mount` mounts
    the model with these options, and `reader` returns the seconds of the program of that name."""
    found = {}
    for mode, value in MODES.items():
        for what, (block, readers) in RANDOM.items():
            with mount("--offline", "--io-uring", value) as mounted:
                if uses_rings(mounted) != (mode == "rings"):
                    return None
                count = min(16384, size // block)
                path = os.path.join(mounted.path, "tensors", large)
                found[f"{mode} {what}"] = count / reader(bench, "random", path, block, readers, count)
        for what, command in WALKS.items():
            with mount("--offline", "--io-uring", value) as mounted:
                found[f"{mode} {what}"] = 1 / walk(command, os.path.join(mounted.path, "tensors"))
        with mount("--offline", "--io-uring", value) as mounted:
            found[f"{mode} read all"] = 1 / read_all(os.path.join(mounted.path, "tensors"))
    return found
