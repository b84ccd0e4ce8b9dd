"""Models with very many small tensors, and the measured commands that are held against the budget of their bytes."""
import os
import resource
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import WEIGHTFS, is_sanitized  # noqa: E402
import limits  # noqa: E402

MAX_PRINTED = 1 << 20
EMPTY_MB = 20  # of a command for an empty model
EMPTY_S = 0.1
# Rendering a million numbers takes longer without optimisation than parsing does.
IS_DEBUG = limits.is_debug_build(WEIGHTFS)
SLOWDOWN = 2 * limits.DEBUG_SLOWDOWN if IS_DEBUG else 1
CPU_S = 20 * SLOWDOWN
# A build without optimisation would take minutes; what grows faster than the number of tensors shows with fewer, too.
TENSORS = 20_000 if IS_DEBUG else 100_000
NAMES = 100_000 if IS_DEBUG else 1_000_000
TREES = 1_500

# The types of safetensors, and the width of an element in bytes; without optimisation one type of each width.
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "U8": 1} | ({} if IS_DEBUG else {"I64": 8, "BF16": 2, "I8": 1, "BOOL": 1})
# Types of GGUF: the number, the elements and the bytes of a block.
BLOCKS = {"q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "q4_K": (12, 256, 144)}


def safetensors(path, count, dtype="U8", seed=1):
    """`count` tensors of one element, without an object for each."""
    width = WIDTHS[dtype]
    entries = ",".join(f'"layers.{i % 700}.w{i}":{{"dtype":"{dtype}","shape":[1,1],"data_offsets":[{width * i},{width * (i + 1)}]}}'
                       for i in range(count))
    header = ("{" + entries + "}").encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.writelines((seed * (i + 1) * 2654435761 % 2**31).to_bytes(8, "big")[-width:] for i in range(count))
    return path


def gguf(path, count, name):
    """`count` tensors of one block of a quantised type."""
    kind, elements, size = BLOCKS[name]
    size += -size % 32
    names = [f"blk.{i % 700}.w{i}".encode() for i in range(count)]
    header = b"GGUF" + struct.pack("<IQQ", 3, count, 0) + b"".join(
        struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, elements, 1, kind, size * i) for i, name in enumerate(names))
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % 32) + bytes(size * count))
    return path


def lightgbm(path, count=TREES):
    arrays = ("split_feature=0 1", "split_gain=1.5 0.25", "threshold=0.5 1.5", "decision_type=2 2", "left_child=1 -1",
              "right_child=-2 -3", "leaf_value=1 -2.5 0.125", "leaf_weight=1 2 3", "leaf_count=4 5 6", "internal_value=0 1",
              "internal_weight=0 9", "internal_count=9 6")
    with open(path, "w", encoding="utf-8") as file:
        file.write("tree\nversion=v4\nnum_class=1\n\n")
        for i in range(count):
            file.write(f"Tree={i}\nnum_leaves=3\nnum_cat=0\n" + "\n".join(arrays) + "\nshrinkage=0.1\n\n\n")
        file.write("end of trees\n\nfeature_importances:\n")
    return path


def run(*argv, memory_mb, cpu_s=CPU_S, makes_files=False):
    """Status, standard output and error of a command within its limits. If a command makes a file for each tensor, the
    processor time of the kernel is not counted: creating 100,000 files costs a program without any other work 6 s."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([WEIGHTFS, *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S)))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        written = os.fstat(out.fileno()).st_size
        out.seek(0), err.seek(0)
        # Without the text of a hundred thousand tensors: the next process begins with the memory of this one (fork(2)).
        printed, problems = out.read(MAX_PRINTED), err.read()
    most = {"diff": 2, "plot": 2, "ls": 9}.get(argv[0], 1)  # of each model; of the file; of each directory
    assert len(problems.splitlines()) <= most, problems
    if not is_sanitized():
        assert usage.ru_maxrss < memory_mb * 1000, (argv, usage.ru_maxrss)
        spent = usage.ru_utime + (0 if makes_files else usage.ru_stime)
        assert spent < cpu_s + limits.CPU_PER_WRITTEN_BYTE_S * written * SLOWDOWN, (argv, spent, written)
    return process.returncode, printed, problems


def memory_mb(size):
    return (limits.MEMORY_BASE + limits.MEMORY_PER_BYTE * size) / 1e6 + EMPTY_MB


def cpu_s(size):
    return (limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size + EMPTY_S) * SLOWDOWN


def run_limited(sources, *argv, makes_files=False):
    """Runs a command of these sources within the budget of their bytes, and returns what `run` does."""
    size = sum(map(limits.bytes_of, sources))
    return run(*argv, memory_mb=memory_mb(size), cpu_s=cpu_s(size), makes_files=makes_files)
