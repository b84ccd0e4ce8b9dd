"""Events while a command runs: a kill, an interrupt, a second process, a full disk or quota, a file that is replaced."""
import os
import signal
import subprocess
import threading
import time
from typing import NamedTuple

MOMENTS = 20
SIZES_KIB = (16, 64, 256, 1024, 4096)  # of disks and quotas


class Event(NamedTuple):
    kind: str  # "SIGKILL", "SIGINT", "second process", "replaced", "full disk", "full quota"
    at: int = 0  # the moment, of MOMENTS; the size of the disk or quota in KiB

    def __str__(self):
        return self.kind if self.kind == "second process" else f"{self.kind}@{self.at}"


def events_of(source, command):
    """Those that a command on this kind of source is tried with."""
    if command not in ("cat", "fetch", "verify", "export safetensors", "mount"):
        return []
    out = [Event(kind, at) for kind in ("SIGKILL", "SIGINT") for at in range(MOMENTS) if command != "mount"]
    out += [Event("second process")]
    if source.can_be_replaced and command in ("cat", "export safetensors"):
        out += [Event("replaced", at) for at in range(0, MOMENTS, 4)]
    if os.getuid() == 0 and command in ("fetch", "export safetensors"):
        out += [Event("full disk", size) for size in SIZES_KIB]
    if source.is_remote or source.digested:
        out += [Event("full quota", size) for size in SIZES_KIB if command != "mount"]
    return out


class SmallDisk:
    """A file system with so many KiB at `folder`, until it is closed."""

    def __init__(self, folder, size_kib):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", folder], check=True)

    def enlarge(self):
        subprocess.run(["mount", "-o", "remount,size=1G", self.folder], check=True)

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=True)


def at_moment(event, duration, action):
    """Starts a thread that acts at that moment of a command that takes `duration`."""
    def act():
        time.sleep(duration * (event.at + 0.5) / MOMENTS)  # the moment is what the table varies
        action()
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def problem_with(cell, source, event, command):
    """What breaks the promise; None if it holds."""
    cell.forget()
    source.heal()
    disk = None
    try:
        if event.kind == "full disk":
            disk = SmallDisk(cell.small, event.at)
        return _judge(cell, source, event, command, disk)
    finally:
        cell.during, cell.options = None, []
        cell.use_folder(cell.folder)
        source.heal()
        if disk:
            disk.close()


def _judge(cell, source, event, command, disk):
    if event.kind == "second process":
        return _twice(cell, command)
    duration = cell.duration(command)
    if event.kind in ("SIGKILL", "SIGINT"):
        number = getattr(signal, event.kind)
        cell.during = lambda process: at_moment(event, duration, lambda: process.poll() is None and process.send_signal(number))
    elif event.kind == "replaced":
        cell.during = lambda process: at_moment(event, duration, source.replace)
    elif event.kind == "full disk":
        cell.use_folder(cell.small)
    else:
        cell.options = ["--cache-size", f"{event.at}K"]
    result = cell.do(command)
    cell.during, cell.options = None, []
    if "oracle:" in result.errors:
        return result.errors.strip().splitlines()[-1]
    if result.is_timeout:
        return "hangs"
    if result.status == 0 and not result.is_complete and not (event.kind == "replaced" and cell.is_of_the_other(result)):
        return "status 0, and not complete"
    if result.status != 0 and event.kind.startswith("full") and (result.status != 1 or not result.errors.strip()):
        return f"status {result.status}, not 1: {result.errors.strip()[:200]}"
    if result.status != 0 and event.kind == "replaced" and not result.errors.strip():
        return f"status {result.status} without a word"
    source.heal()
    cell.clear_outputs()
    if disk:
        disk.enlarge()
    again = cell.do(command)
    if again.status != 0 or not again.is_complete:
        return f"the next run does not complete: status {again.status}: {again.errors.strip()[:200]}"
    return None


def _twice(cell, command):
    results = []
    other = cell.copy()
    threads = [threading.Thread(target=lambda one=one: results.append(one.do(command))) for one in (cell, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = [result for result in results if result.status != 0 or not result.is_complete]
    return f"two at once: status {wrong[0].status}: {wrong[0].errors.strip()[:200]}" if wrong else None
