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
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/cmdline", "rb") as cmdline:
                argv = cmdline.read()
                if os.fsencode(folder) in environ.read() + argv:
                    found[int(pid)] = argv.replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass  # it has exited, or belongs to another user
    return found
