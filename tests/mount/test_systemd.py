"""The units, started by a real systemd: PID 1 of a container whose root is an overlay of this machine's root."""
import json
import tempfile

import booted
from mounting import WEIGHTFS, TestCase, containers, os, sample_tensors, shutil, subprocess, unittest

LIMIT_S = 200
BUILD = os.environ.get("WEIGHTFS_BUILD") or os.path.dirname(WEIGHTFS)
HERE = os.path.dirname(os.path.abspath(__file__))

# Runs in a new mount namespace. Writes go to a tmpfs, because the upper directory of an overlay cannot be inside its lower
# directory.
SCRIPT = r"""
set -e
mount -t tmpfs -o size=512m weightfs-test "$1"
mkdir "$1/upper" "$1/work" "$1/root"
DESTDIR="$1/upper" cmake --install "$2" >"$1/install.log" || { cat "$1/install.log" >&2; exit 3; }
cp -R "$3/." "$1/upper"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" weightfs-test "$1/root"
mount -t tmpfs weightfs-test /run
timeout --kill-after=10 "$5" \
  systemd-nspawn --quiet --link-journal=no --directory="$1/root" --register=no --keep-unit --private-network --bind=/dev/fuse --bind=/dev/autofs \
  --system-call-filter="@sandbox landlock_create_ruleset landlock_add_rule landlock_restrict_self" --boot \
  --machine="$4" --console=pipe -- systemd.unit=weightfs-test.target systemd.show_status=no \
  </dev/null >"$3/boot.log" 2>&1 || echo "systemd-nspawn: $?" >>"$3/boot.log"
# If no systemd manages this machine's control groups, those of the container stay.
pgrep -x systemd-nspawn >/dev/null || find /sys/fs/cgroup -mindepth 2 -depth -type d \
  \( -path '*/payload' -o -path '*/payload/*' -o -path '*/supervisor' \) -exec rmdir {} + 2>/dev/null || true
cp "$1/upper/checks.log" "$1/upper/checks.err" "$3"
"""

TARGET = """[Unit]
Requires=weightfs-test.service
AllowIsolate=yes
"""

SERVICE = """[Unit]
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec={limit}
StandardOutput=file:/checks.log
StandardError=file:/checks.err
ExecStart=/bin/sh -c 'systemd-sysusers && systemd-tmpfiles --create weightfs.conf && exec {python} /checks/booted.py'
ExecStopPost=/bin/systemctl --no-block --force poweroff
"""

# A failed boot ends the container.
EMERGENCY = """[Service]
ExecStart=/bin/systemctl --no-block --force poweroff
"""


def missing_requirement():
    """The missing requirement of these tests, or None."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("systemd-nspawn", "cmake", "nsenter", "unshare"):
        if shutil.which(program) is None:
            return f"no {program} here"
    for path in ("/dev/fuse", "/dev/autofs", "/lib/systemd/systemd"):
        if not os.path.exists(path):
            return f"no {path} here"
    with open("/proc/filesystems") as file:
        if "\toverlay\n" not in file.read():
            return "no overlay file system here"
    if not os.path.exists(os.path.join(BUILD, "cmake_install.cmake")):
        return f"{BUILD} is no build that could be installed"
    return None


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def read(path):
    """The text of a file; empty if it is missing."""
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def write_container_files(root):
    """Writes the files that the container adds to this machine and the installed build."""
    units = f"{root}/etc/systemd/system"
    write(f"{units}/weightfs-test.target", TARGET)
    write(f"{units}/weightfs-test.service", SERVICE.format(limit=LIMIT_S - 20, python="/usr/bin/python3"))
    write(f"{units}/emergency.service", EMERGENCY)
    # The leak check of the sanitizer traces the process, which the sandbox forbids.
    for kind in ("system", "user"):
        write(f"{root}/etc/systemd/{kind}/weightfs@.service.d/test.conf",
              "[Service]\nEnvironment=ASAN_OPTIONS=detect_leaks=0\nRestartSec=200ms\n")
    write(f"{root}/etc/fstab",
          f"{booted.MODELS}/model.safetensors /srv/fstab weightfs x-systemd.automount,noauto,nofail,allow_other 0 0\n"
          "fstab_can_refer_to_a_service /srv/by-service weightfs service=fstab_can_refer_to_a_service,noauto 0 0\n")
    os.makedirs(f"{root}/checks")
    shutil.copy(os.path.join(HERE, "booted.py"), f"{root}/checks")
    shutil.copy(os.path.join(HERE, "..", "..", "packaging", "prerm"), f"{root}/checks")
    # Machines that build images forbid packages to start and stop services.
    write(f"{root}/usr/sbin/policy-rc.d", "#!/bin/sh\n")
    os.chmod(f"{root}/usr/sbin/policy-rc.d", 0o755)
    os.makedirs(f"{root}{booted.MODELS}")
    os.makedirs(f"{root}/srv/by-service")
    containers.WRITERS["safetensors"](f"{root}{booted.MODELS}/model.safetensors", sample_tensors(), None)
    os.symlink(os.path.join("/usr/local/bin", "weightfs"), f"{root}/usr/sbin/mount.weightfs")
    for directory, _, _ in os.walk(root):
        os.chmod(directory, 0o755)


class Systemd(TestCase):
    """Boots once; each check of booted.py is a test here."""

    results = None
    reason = missing_requirement()

    @classmethod
    def boot(cls):
        tmp = tempfile.mkdtemp(prefix="weightfs-test-")
        try:
            root = os.path.join(tmp, "files")
            os.makedirs(os.path.join(tmp, "overlay"))
            write_container_files(root)
            done = subprocess.run([
                "unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh",
                os.path.join(tmp, "overlay"), BUILD, root, f"weightfs-test-{os.getpid()}",
                str(LIMIT_S)
            ], capture_output=True, text=True, check=False)
            if done.returncode == 3:
                raise AssertionError(f"cannot be installed: {done.stderr}")
            cls.results = dict(map(json.loads, read(f"{root}/checks.log").splitlines()))
            if not os.path.exists(f"{root}/checks.err"):
                print(f"systemd does not boot here: {done.stderr}{read(f'{root}/boot.log')}"[-2000:])
                cls.reason = "systemd does not boot on this machine; its output is printed above"
        finally:
            shutil.rmtree(tmp)

    def check(self, name):
        if self.reason is None and self.results is None:
            self.boot()
        if self.reason is not None:
            self.skipTest(self.reason)
        self.assertIn(name, self.results, "the checks ended before this one")
        if isinstance(self.results[name], dict):
            self.skipTest(self.results[name]["skipped"])
        self.assertIsNone(self.results[name], self.results[name])


for each in booted.names():
    setattr(Systemd, each, lambda self, name=each: self.check(name))


if __name__ == "__main__":
    unittest.main()
