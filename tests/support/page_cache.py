"""The pages of a file that are in the page cache."""
import ctypes
import mmap
import os
import subprocess


def cached_pages(path):
    """For each page of the file, whether it is in the page cache; the kernel tells this only to users who may write the file."""
    size = os.path.getsize(path)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as mapping:
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        if ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) != 0:
            raise OSError(f"{path}: mincore(2) fails")
    return [page & 1 for page in pages]


def drop(path):
    """Removes the pages of a file from the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def is_in_memory(path):
    """Whether the file system has no disk."""
    done = subprocess.run(["stat", "--file-system", "--format=%T", path], capture_output=True, text=True, check=True)
    return done.stdout.strip() in ("tmpfs", "ramfs")
