"""Finds processes and mounts that a test may leave behind."""
import os
import re


def is_mounted(point):
    """Replaces os.path.ismount, which fails for the mount of another user, and blocks on a mount whose server hangs."""
    with open("/proc/self/mountinfo", "rb") as file:
        points = [re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), line.split(b" ")[4]) for line in file]
    return os.fsencode(os.path.join(os.path.realpath(os.path.dirname(point)), os.path.basename(point))) in points


def processes_of(folder):
    """The processes whose arguments or environment name this folder, and their command lines."""
    def read(pid, name):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                return file.read()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return b""  # it has exited, or belongs to another user; only root sees the environment of a server

    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        argv = read(pid, "cmdline")
        if os.fsencode(folder) in argv + read(pid, "environ"):
            found[int(pid)] = argv.replace(b"\0", b" ").decode(errors="replace")
    return found


def cpu_s_of(pid):
    """The processor time that a process has taken so far, in seconds."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def peak_mb_of(pid):
    """The most memory that a process has had so far."""
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1000
