"""A memory cgroup for a process under test."""
import contextlib
import os


class Cgroup:
    """A new memory cgroup, in the hierarchy (v1 or v2) that has the memory controller."""

    def __init__(self, limit):
        self.path = None
        for parent, is_v2 in self.parents():
            path = os.path.join(parent, f"weightfs-test-{os.getpid()}")
            file = os.path.join(path, "memory.max" if is_v2 else "memory.limit_in_bytes")
            try:
                os.mkdir(path)
                with open(file, "r+") as limit_file:
                    limit_file.write(str(limit))
            except OSError:
                with contextlib.suppress(OSError):
                    os.rmdir(path)
                continue
            self.path, self.is_v2 = path, is_v2
            with contextlib.suppress(OSError):  # swap may be missing
                with open(os.path.join(path, "memory.swap.max" if is_v2 else "memory.memsw.limit_in_bytes"), "r+") as swap:
                    swap.write("0" if is_v2 else str(limit))
            return

    @staticmethod
    def parents():
        """The possible parent groups: that of this process, and the root."""
        with open("/proc/self/cgroup") as file:
            groups = {controllers: path for _, controllers, path in (line.rstrip("\n").split(":", 2) for line in file)}
        with open("/proc/self/mountinfo") as file:
            for line in file:
                words = line.split()
                kind = words[words.index("-") + 1]
                if kind == "cgroup2" or (kind == "cgroup" and "memory" in words[-1].split(",")):
                    own = next(
                        (path
                         for names, path in groups.items() if names == "" and kind == "cgroup2" or "memory" in names.split(",")),
                        "/")
                    yield words[4] + own.rstrip("/"), kind == "cgroup2"
                    yield words[4], kind == "cgroup2"

    def add_this_process(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def kills(self):
        """The number of processes in the group that the kernel has killed for lack of memory."""
        with open(os.path.join(self.path, "memory.events" if self.is_v2 else "memory.oom_control")) as file:
            return int(dict(line.split() for line in file)["oom_kill"])

    def remove(self):
        os.rmdir(self.path)
