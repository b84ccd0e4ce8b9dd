"""A model in a compressed archive at a URL of https, for the benchmark: `weightfs fetch`, against that of the plain file."""
import os
import subprocess
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


def write_certificate(folder):
    """The files of a self-signed certificate for 127.0.0.1, and of its key."""
    certificate, key = os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key
