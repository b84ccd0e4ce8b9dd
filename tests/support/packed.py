"""What tests of packed programs share: the program that they compare with, their own one, and a certificate of a server."""
import os

from roots import checked

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def built():
    """The dynamic program: $WEIGHTFS, or that of the preset release, which is built."""
    if os.environ.get("WEIGHTFS"):
        return os.path.abspath(os.environ["WEIGHTFS"])
    checked(["cmake", "--preset", "release"], cwd=HOME)
    checked(["cmake", "--build", "--preset", "release", "--target", "weightfs"], cwd=HOME)
    return os.path.join(HOME, "build", "release", "weightfs")


def unpack_program(archive, folder):
    """Unpacks the program of an archive of scripts/package --portable to a folder, and returns its path."""
    checked(["tar", "-xf", archive, "-C", folder, "--strip-components=1", "--wildcards", "*/weightfs"])
    return os.path.join(folder, "weightfs")


def make_certificate(folder):
    """Writes tls.key and tls.pem, a certificate for 127.0.0.1 that only itself signs."""
    checked(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
             "subjectAltName=IP:127.0.0.1", "-keyout", "tls.key", "-out", "tls.pem"], cwd=folder)
