"""64 readers of 64 files, each read once by fio(1), for the benchmark: the total rate of the first read after mounting."""
import json
import os
import shutil
import subprocess

COUNT = 64


def is_available():
    return shutil.which("fio") is not None


def rate(paths):
    """Bytes per second."""
    command = ["fio", "--thread", "--group_reporting", "--output-format=json", "--rw=read", "--bs=1M", "--invalidate=0",
               "--readonly"]
    for path in paths:
        command += [f"--name={os.path.basename(path)}", f"--filename={path}"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return sum(job["read"]["bw_bytes"] for job in json.loads(printed[printed.index("{"):])["jobs"])


def compare(bench, source, offset, size):
    """One round: the rates of weightfs, whose tensors are t00, t01, … from this offset on, and of the floor."""
    with bench.mount(source) as mount:
        found = {"weightfs": rate([os.path.join(mount.path, "npy", f"t{number:02}.npy") for number in range(COUNT)])}
    with bench.floor("floor_read", "--map", "--parts", COUNT, source, offset, size) as mount:
        found["floor"] = rate([os.path.join(mount.path, str(number)) for number in range(COUNT)])
    return found
