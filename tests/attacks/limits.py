"""The limits of every input (the budget, base/budget.h), and the allowances on top of them.

  memory (peak resident set)    64 MB + 10 x bytes + the same command's cost for an empty model
  CPU (user + system)            1 s + 1 s per 10 MB + the same command's cost for an empty model + a walk's requests

`bytes` is what the container's files occupy on disk, each file counted once; holes do not count.
"""
import os

MEMORY_BASE = 64_000_000
MEMORY_PER_BYTE = 10
CPU_BASE_S = 1.0
CPU_PER_BYTE_S = 1e-7

# A walk's own requests to the server: each is a system call, a context switch and a reply from the tree.
CPU_PER_REQUEST_S = 100e-6

# `ls` prints a line per entry, and looks up its attributes.
CPU_PER_LINE_S = 10e-6

# Reading is not charged to the budget: these bytes of a hole, of a member or from a server are read, decoded, hashed and written
# by a reader of one file. The beginning of model.npz, which has the checksum of the first tensor, needs all of that tensor.
CPU_PER_READ_BYTE_S = 5e-9

# A document of all numbers has 3 KB for each tensor: the kernel copies them.
CPU_PER_WRITTEN_BYTE_S = 2e-9

# Links lead to directories that have nothing to do with the container's size: at most 100,000 files are listed.
CPU_PER_LISTED_FILE_S = 40e-6

# The limits are those of an optimised build. A build without optimisation takes about this many times the CPU time for the
# same parsing.
DEBUG_SLOWDOWN = 4

# The cost of one small model in a directory of many.
MEMORY_PER_MODEL = 20_000
CPU_PER_MODEL_S = 0.002

# Guards that protect the machine from a successful attack: far above every limit.
ADDRESS_SPACE = 3 << 30
GUARD_CPU_S = 1      # beyond the limit
GUARD_WALL_S = 120


def is_debug_build(binary):
    """Whether CMake built the program without optimisation, by CMakeCache.txt beside it."""
    cache = os.path.join(os.path.dirname(os.path.abspath(binary)), "CMakeCache.txt")
    if not os.path.exists(cache):
        return False
    with open(cache, encoding="utf-8") as file:
        return "CMAKE_BUILD_TYPE:STRING=Debug\n" in file.read()


def bytes_of(path):
    """The disk usage of the files below `path` (or of the file), in bytes."""
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
