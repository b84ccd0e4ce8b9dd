"""Walks through one directory, for the benchmark: the first one of each tool after mounting, against the same empty files in the
folder of the benchmark, whose inodes the kernel has, and against floor_names."""
import os
import subprocess
import sys
import tempfile
import time

LIST_AND_STAT = """import os, sys
for name in os.listdir(sys.argv[1]): os.stat(os.path.join(sys.argv[1], name))"""

# The command of each, and the minimum ratio for weightfs.
TOOLS = {
    "find": (["find", "{}"], 0.25),
    "du -a": (["du", "-a", "{}"], 0.45),
    "find -ls": (["find", "{}", "-ls"], 0.45),
    "find -size": (["find", "{}", "-size", "1"], None),
    "listdir, stat": ([sys.executable, "-c", LIST_AND_STAT, "{}"], 0.45),
    "ls; ls -l": (["sh", "-c", 'ls -U "$1"; ls -lU "$1"', "sh", "{}"], 0.7),
}


def seconds(tool, folder):
    command = [word.replace("{}", folder) for word in TOOLS[tool][0]]
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def compare(bench, source, count):
    """One round: the inverse of the seconds of each tool, by its name after the name of what it walks through."""
    found = {}
    with tempfile.TemporaryDirectory(dir=bench.folder) as local:
        for number in range(count):
            open(os.path.join(local, f"t{number}"), "w").close()
        for tool in TOOLS:
            seconds(tool, local)
            found[f"local {tool}"] = 1 / seconds(tool, local)
            with bench.mount(source) as mount:
                found[f"weightfs {tool}"] = 1 / seconds(tool, os.path.join(mount.path, "tensors"))
            with bench.floor("floor_names", count, 0) as mount:
                found[f"floor {tool}"] = 1 / seconds(tool, mount.path)
    return found
