"""Short commands from their start to their end, for the benchmark: with and without $SSL_CERT_DIR, against `readelf -h` of the
program, which starts, reads the head of a file and ends."""
import os
import subprocess
import time

# The words of each.
COMMANDS = {"--version": ["--version"], "info": ["info", "{}"], "cat": ["cat", "{}", "tensors/{last}"], "ls": ["ls", "{}"]}
ROUNDS = 25  # a start takes some milliseconds
LINKS = 140  # of certificates, as Debian has in /etc/ssl/certs


def write_links(folder):
    """A directory of links to certificates."""
    os.mkdir(folder)
    for number in range(LINKS):
        target = os.path.join(folder, f"{number}.pem")
        open(target, "w").close()
        os.symlink(target, os.path.join(folder, f"{number:08x}.0"))
    return folder


def seconds(argv, **variables):
    start = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True, env=dict(os.environ, **variables))
    return time.perf_counter() - start


def compare(programs, source, last, certificates):
    """One round: the seconds of each command of each program, by (program, command), and of the floor."""
    found = {"floor": seconds(["readelf", "-h", programs["weightfs"]])}
    for program, binary in programs.items():
        for name, words in COMMANDS.items():
            argv = [binary, *(word.format(source, last=last) for word in words)]
            found[program, name] = seconds(argv)
            if name != "--version":
                found[program, f"{name}, $SSL_CERT_DIR"] = seconds(argv, SSL_CERT_DIR=certificates)
    return found
