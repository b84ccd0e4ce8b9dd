"""Directories of models: links, loops, holes, special files."""
import io
import os
import zipfile

from attack import SHOWN, Attack, links_to, put
from limits import CPU_PER_MODEL_S, MEMORY_PER_MODEL
import archives
from attacks_gguf import model as gguf
from attacks_gguf import tensor as gguf_tensor

WALKED = SHOWN | {4, 5}
FAILURES = SHOWN | {1, 4, 5, 7}
ENTERED = {"memory": 1_500_000_000, "cpu": 60}  # large models, which count against the limits of the process
SMALL = {"memory": 3_000 * MEMORY_PER_MODEL, "cpu": 3_000 * CPU_PER_MODEL_S}


def many_links(name, make, count, hard):
    """`count` links to one file that is a model."""
    def build(folder):
        stem, suffix = name.split(".", 1)
        links_to(folder, put(folder, name, make()), [f"{stem}{i}.{suffix}" for i in range(count)], hard)
        return ""
    return build


def large_gguf():
    return gguf(tensors=[gguf_tensor(b"t%d" % i) for i in range(20_000)])


def doubling(depth):
    def build(folder):
        for i in range(depth):
            os.mkdir(os.path.join(folder, f"d{i}"))
            for name in "ab":
                os.symlink(f"../d{i + 1}", os.path.join(folder, f"d{i}", name))
        put(folder, f"d{depth}/m.gguf", gguf(tensors=[gguf_tensor(b"t")]))
        return ""
    return build


def loops(folder):
    put(folder, "m.gguf", gguf(tensors=[gguf_tensor(b"t")]))
    for i in range(100):
        os.symlink(".", os.path.join(folder, f"here{i}"))
    os.symlink("..", os.path.join(folder, "up"))
    os.symlink("loop.gguf", os.path.join(folder, "loop.gguf"))
    os.symlink("b.gguf", os.path.join(folder, "a.gguf"))
    os.symlink("a.gguf", os.path.join(folder, "b.gguf"))
    return ""


def other_kinds(folder):
    os.mkfifo(os.path.join(folder, "fifo.gguf"))
    os.symlink("/dev/zero", os.path.join(folder, "zero.safetensors"))
    os.symlink("/dev/urandom", os.path.join(folder, "random.zip"))
    os.symlink("/proc/self/mem", os.path.join(folder, "memory.rten"))
    os.symlink("/proc/kmsg", os.path.join(folder, "messages.bt"))
    os.mkdir(os.path.join(folder, "directory.gguf"))
    put(folder, "m.gguf", gguf(tensors=[gguf_tensor(b"t")]))
    return ""


def holes(folder):
    for suffix in ("gguf", "safetensors", "bt", "rten", "params", "zip", "carton", "tar", "tar.gz", "tar.zst", "json", "bin"):
        put(folder, f"hole.{suffix}", b"")
        os.truncate(os.path.join(folder, f"hole.{suffix}"), 1 << 40)
    return ""


def empty_files(folder):
    names = [f"{i}.{suffix}" for i in range(400) for suffix in ("gguf", "safetensors", "bt", "rten", "params", "zip", "tar")]
    links_to(folder, put(folder, "empty", b""), names, True)
    return ""


def deep(folder):
    put(folder, "d/" * 450 + "m.gguf", gguf(tensors=[gguf_tensor(b"t")]))
    return ""


def odd_names(folder):
    source = put(folder, "m.gguf", gguf(tensors=[gguf_tensor(b"t")]))
    for i in range(1, 256):
        name = os.fsencode(folder) + b"/" + (bytes([i]) if i != 0x2F else b"s") * 200 + b"%d.gguf" % i
        os.link(os.fsencode(os.path.join(folder, source)), name)
    return ""


def zip_bomb():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(2_000):
            file.writestr(f"{i}/" + "a/" * 29 + "m.gguf", b"")
    return out.getvalue()


ATTACKS = [
    Attack("directory-hard-links-gguf", "directory", "60 hard links to one GGUF of 20,000 tensors",
           many_links("m.gguf", large_gguf, 60, True), WALKED, FAILURES, **ENTERED),
    Attack("directory-symbolic-links-gguf", "directory", "60 symbolic links to one GGUF of 20,000 tensors",
           many_links("m.gguf", large_gguf, 60, False), WALKED, FAILURES, **ENTERED),
    Attack("directory-hard-links-zip", "directory", "60 hard links to one zip of 2,000 members with 31 components",
           many_links("m.zip", zip_bomb, 60, True), WALKED, FAILURES, **ENTERED),
    Attack("directory-hard-links-zstd-tar", "directory", "60 hard links to one tar of 64 MB in 2 KB",
           many_links("m.tar.zst", lambda: archives.zstd(bytes(1 << 26)), 60, True), WALKED, FAILURES, **ENTERED),
    Attack("directory-doubling", "directory", "links to directories that double at each level: 2^30 paths", doubling(30), WALKED,
           FAILURES),
    Attack("directory-doubling-10", "directory", "links to directories that double at each level: 2^10 paths", doubling(10), WALKED,
           FAILURES, **SMALL),
    Attack("directory-loops", "directory", "100 links to the directory itself, and loops of files", loops, WALKED, FAILURES),
    Attack("directory-other-kinds", "directory", "FIFOs, devices and /proc with names of models", other_kinds, WALKED | {1},
           FAILURES),
    Attack("directory-holes", "directory", "files of 1 TB that are holes, with the names of all formats", holes, WALKED | {1},
           FAILURES),
    Attack("directory-empty-files", "directory", "2,800 empty files with the names of all formats", empty_files, WALKED | {1},
           FAILURES, **SMALL),
    Attack("directory-deep", "directory", "directories 450 deep", deep, WALKED, FAILURES),
    Attack("directory-names", "directory", "names of every byte, 200 times", odd_names, WALKED, FAILURES),
]
