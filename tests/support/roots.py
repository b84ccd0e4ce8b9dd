"""Roots of other systems below a directory, and shell scripts that run in them."""
import os
import shutil
import subprocess

LIMIT_S = 900
# The environment of all commands: the locale decides which signs a screen has.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8"}
# Modules of name services that other systems have.
MODULES = """passwd: files systemd sss extrausers
group: files systemd sss extrausers
hosts: files mdns4_minimal [NOTFOUND=return] resolve dns myhostname
"""
USER = 1000
USERS = f"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nanna:x:{USER}:{USER}::/:/bin/sh\n"
TOOLS = ("sh", "cat", "cmp", "grep", "head", "kill", "ls", "mkdir", "rm", "sed", "sleep")
# Debian's releases, each with the packages of its root: Debian 11 has no fuse3 by default, so its users have fusermount of fuse 2.
RELEASES = {"bullseye": ("fuse", "python3-venv", "python3-numpy"), "trixie": ("fuse3", "python3-venv", "python3-numpy")}
BUSYBOX = "busybox"  # nothing but a static busybox


class Failed(Exception):
    pass


def run(argv, **kwargs):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, **kwargs)


def checked(argv, **kwargs):
    done = run(argv, **kwargs)
    if done.returncode:
        raise Failed(f"{done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}\n{' '.join(argv)} failed")
    return done.stdout.decode()


def write(root, name, text):
    with open(os.path.join(root, name), "w", encoding="utf-8") as file:
        file.write(text)


def make_busybox(root):
    for name in ("bin", "dev", "proc", "etc", "tmp"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin", "busybox"))
    for name in TOOLS:
        os.symlink("busybox", os.path.join(root, "bin", name))
    write(root, "etc/passwd", USERS)


def make_debian(release, root):
    checked(["debootstrap", "--variant=minbase", f"--include={','.join(RELEASES[release])}", release, root])
    write(root, "etc/nsswitch.conf", MODULES)
    write(root, "etc/passwd", USERS)
    # Installed systems have it, and fusermount needs it.
    os.symlink("../proc/self/mounts", os.path.join(root, "etc", "mtab"))


def make_root(kind, folder):
    """Makes the root of a kind in the folder, and returns its path."""
    root = os.path.join(folder, kind)
    if kind == BUSYBOX:
        make_busybox(root)
    else:
        make_debian(kind, root)
    return root


def in_root(root, folder, script, user=0):
    """Runs a shell script in the folder, which is mounted in the root; mounts and processes end with it."""
    inside = os.path.join(root, folder.lstrip("/"))
    os.makedirs(inside, exist_ok=True)
    write(folder, "script", script)
    outer = (f"mount --bind /dev {root}/dev && mount -t proc proc {root}/proc && mount --bind {folder} {inside} && "
             f"exec chroot --userspec={user}:{user} {root} /bin/sh -c 'cd {folder} && . ./script'")
    return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", outer],
               env=ENVIRONMENT)
