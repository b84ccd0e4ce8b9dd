"""Attacks on a directory of models that is mounted: it is changed while it is read (semantics 28).

Each row changes the directory. Afterwards the unchanged models are read correctly, no byte from outside of the directory was
served, and the memory, the CPU time and the open files of the server are within their limits.
"""
import os
import signal
import stat
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import NOBODY, MountTestCase, Tensor, descriptors_of, run, shutil, unittest, until  # noqa: E402
import containers  # noqa: E402

ALL = os.environ.get("ATTACKS") != "ci"
EVENTS = 1_000_000 if ALL else 200_000
MEMORY_KIB = 24_000
CPU_S = 20
SECRET = 99
HONEST = {"a.safetensors": 1, "b.safetensors": 2}


def write_model(path, value):
    containers.write_safetensors(path, [Tensor("w", "int8", (4096,), bytes([value]) * 4096)], {})


class Attack:
    """The directory, and what is beside it."""

    def __init__(self, test):
        self.test, self.folder, self.outside = test, test.path("models"), test.path("outside")

    def path(self, name):
        return os.path.join(self.folder, name)

    def secret(self):
        os.makedirs(self.outside, exist_ok=True)
        path = os.path.join(self.outside, "secret.safetensors")
        if not os.path.exists(path):
            write_model(path, SECRET)
        return path


def long_names(attack):
    for i in range(200):
        write_model(attack.path(f"{i:04}" + "n" * (255 - 4 - len(".safetensors")) + ".safetensors"), 5)


def names_that_are_no_text(attack):
    for name in (b"\xff\xfe.safetensors", b"new\nline.safetensors", b"\x1b[31m.safetensors", b"%~1.safetensors", b"..safetensors"):
        shutil.copy(attack.path("a.safetensors"), os.path.join(attack.folder.encode(), name))


def fifos_and_devices(attack):
    for i in range(20):
        os.mkfifo(attack.path(f"fifo{i}.safetensors"))
        os.mkfifo(attack.path(f"fifo{i}.gguf"))
    if os.geteuid() == 0:
        os.mknod(attack.path("zero.safetensors"), stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.mknod(attack.path("disk.gguf"), stat.S_IFBLK | 0o666, os.makedev(7, 0))


def links_to_elsewhere(attack):
    """A link of another user, which is not followed."""
    secret = attack.secret()
    for i in range(200):
        link = attack.path("x.safetensors")
        os.symlink(secret, attack.path("link"))
        os.lchown(attack.path("link"), NOBODY.pw_uid, NOBODY.pw_gid)
        os.rename(attack.path("link"), link)
        if i % 2:
            write_model(attack.path("new"), 6)
            os.rename(attack.path("new"), link)
    os.unlink(link)


def directory_swapped_with_a_link(attack):
    attack.secret()
    os.mkdir(attack.path("sub"))
    write_model(os.path.join(attack.path("sub"), "secret.safetensors"), 7)
    for _ in range(200):
        os.rename(attack.path("sub"), attack.path("away"))
        os.symlink(attack.outside, attack.path("sub"))
        os.lchown(attack.path("sub"), NOBODY.pw_uid, NOBODY.pw_gid)
        os.unlink(attack.path("sub"))
        os.rename(attack.path("away"), attack.path("sub"))
    shutil.rmtree(attack.path("sub"))


def links_in_circles(attack):
    os.mkdir(attack.path("loop"))
    os.symlink("..", os.path.join(attack.path("loop"), "up"))
    os.symlink("loop/up/loop", attack.path("again"))
    os.symlink("self", attack.path("self"))


def many_events(attack):
    for i in range(EVENTS // 4):  # created, closed, removed
        name = attack.path(f"t{i % 50}")
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        os.unlink(name)


def many_times(attack):
    for i in range(EVENTS // 5):
        os.utime(attack.path("c.safetensors"), (i, i))


def replaced_in_a_loop(attack):
    for i in range(3_000):
        write_model(attack.path("new"), 3 + i % 50)
        os.rename(attack.path("new"), attack.path("c.safetensors"))
    write_model(attack.path("new"), 3)
    os.rename(attack.path("new"), attack.path("c.safetensors"))


def deep_directories(attack):
    path = attack.folder
    for i in range(150):
        path = os.path.join(path, f"d{i}")
        os.mkdir(path)


def many_directories(attack):
    """A model directory with more directories than are walked."""
    os.makedirs(attack.path("wide"))
    write_model(os.path.join(attack.path("wide"), "model.safetensors"), 7)
    for i in range(3_000):
        os.mkdir(os.path.join(attack.path("wide"), f"d{i}"))


def damaged_models(attack):
    for i in range(2_000):
        with open(attack.path(f"bad{i}.safetensors"), "wb") as file:
            file.write(b"\xff" * 16)


def signals(attack):
    for _ in range(5_000):
        os.kill(attack.server, signal.SIGHUP)


ATTACKS = [
    long_names, names_that_are_no_text, fifos_and_devices, links_to_elsewhere, directory_swapped_with_a_link, links_in_circles,
    many_events, many_times, replaced_in_a_loop, deep_directories, many_directories, damaged_models, signals
]


@unittest.skipUnless(os.geteuid() == 0, "only root makes devices and links of other users")
class LivingAttacks(MountTestCase):
    def figures(self, server):
        with open(f"/proc/{server}/status") as file:
            memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        with open(f"/proc/{server}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return memory, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def walk(self, mnt, stop, served):
        """Reads everything, as long as the attack takes."""
        while not stop.is_set():
            for folder, _, files in os.walk(mnt):
                for name in files:
                    if stop.is_set():
                        return
                    if name != "w":
                        continue
                    try:
                        with open(os.path.join(folder, name), "rb") as file:
                            served.add(file.read(1))
                    except OSError:
                        pass

    def judge(self, act):
        attack = Attack(self)
        os.mkdir(attack.folder)
        for name, value in HONEST.items():
            write_model(attack.path(name), value)
        write_model(attack.path("c.safetensors"), 3)
        attack.secret()
        mnt = self.mount("--allow-other", "--layout", "tensors", attack.folder)
        attack.server = self.server(mnt)
        memory, cpu = self.figures(attack.server)
        descriptors = descriptors_of(attack.server)
        stop, served = threading.Event(), set()
        walker = threading.Thread(target=self.walk, args=(mnt, stop, served))
        walker.start()
        try:
            act(attack)
        finally:
            stop.set()
            walker.join()
        self.assertEqual(run("refresh", mnt).returncode, 0)
        for name, value in {**HONEST, "c.safetensors": 3}.items():
            path = os.path.join(mnt, name, "tensors", "w")
            until(lambda path=path, value=value: self.is_served(path, value), f"{name} is not served")
        self.assertNotIn(bytes([SECRET]), served)
        after = self.figures(attack.server)
        self.assertLess(after[0] - memory, MEMORY_KIB)
        self.assertLess(after[1] - cpu, CPU_S)
        self.assertLess(descriptors_of(attack.server) - descriptors, 80)

    @staticmethod
    def is_served(path, value):
        try:
            with open(path, "rb") as file:
                return file.read() == bytes([value]) * 4096
        except OSError:
            return False


def make_test(act):
    def test(self):
        self.judge(act)
    return test


for each in ATTACKS:
    setattr(LivingAttacks, f"test_{each.__name__}", make_test(each))


if __name__ == "__main__":
    unittest.main()
