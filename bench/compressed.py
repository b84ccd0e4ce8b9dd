"""A model in a compressed archive at a URL, for the benchmark: `weightfs fetch`, against that of the plain file."""
import os
import tarfile

LATENCY_S = 0.03
SIZE = 25_000_000  # bytes of its tensors, which do not compress
MOST = 1.3  # times the plain file


def write(path):
    """The archive of a file, beside it."""
    archive = os.path.splitext(path)[0] + ".tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(path, os.path.basename(path))
    return archive
