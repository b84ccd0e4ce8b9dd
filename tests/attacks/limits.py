"""The limits that every input is held against (docs: the Budget, base/budget.h), and what is allowed on top of them.

  memory (peak resident set)    64 MB + 10 x bytes + what the same command takes for an empty model
  CPU (user + system)            1 s + 1 s per 10 MB + what the same command takes for an empty model + a walk's requests

`bytes` is what the container's files occupy on disk, each file counted once; holes do not count.
"""
import os

MEMORY_BASE = 64_000_000
MEMORY_PER_BYTE = 10
CPU_BASE_S = 1.0
CPU_PER_BYTE_S = 1e-7

# A walk's own requests to the server: each is a system call, a switch of processes and an answer from the tree.
CPU_PER_REQUEST_S = 100e-6

# `ls` prints a line for each entry, whose attributes it looks up.
CPU_PER_LINE_S = 10e-6

# The limits are those of an optimised build. A build without optimisation takes about so many times the CPU time for the
# same parsing.
DEBUG_SLOWDOWN = 4

# What a small model of a directory of many takes.
MEMORY_PER_MODEL = 20_000
CPU_PER_MODEL_S = 0.002

# Guards, so that an attack that succeeds does not take the machine: far above every limit.
ADDRESS_SPACE = 3 << 30
GUARD_CPU_S = 1      # beyond the limit
GUARD_WALL_S = 120


def is_debug_build(binary):
    """Whether CMake built the program without optimisation, by the cache that lies beside it."""
    cache = os.path.join(os.path.dirname(os.path.abspath(binary)), "CMakeCache.txt")
    if not os.path.exists(cache):
        return False
    with open(cache, encoding="utf-8") as file:
        return "CMAKE_BUILD_TYPE:STRING=Debug\n" in file.read()


def bytes_of(path):
    """What the files below `path` (or the file) occupy on disk."""
    seen = {}
    for base, _, names in os.walk(path) if os.path.isdir(path) else [(os.path.dirname(path), (), [os.path.basename(path)])]:
        for name in names:
            status = os.lstat(os.path.join(base, name))
            seen[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def memory_limit(size, attack):
    return MEMORY_BASE + MEMORY_PER_BYTE * size + attack.memory


def cpu_limit(size, attack, slowdown):
    return (CPU_BASE_S + CPU_PER_BYTE_S * size + attack.cpu) * slowdown
