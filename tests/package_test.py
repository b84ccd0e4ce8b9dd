"""The Debian package: its content, and its effects on a machine from installation to purge.

The package is built from the build directory of $WEIGHTFS, and installed on an overlay of this machine's root, which the test
removes.
"""
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
import containers  # noqa: E402
from tensors import Tensor  # noqa: E402
from waiting import eventually  # noqa: E402

BUILD = os.environ.get("WEIGHTFS_BUILD") or os.path.dirname(os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs")))
LIMIT_S = 300

# In a private mount namespace: an overlay of / with its changes in memory, the devices of this machine, its own processes,
# and a file in /media that belongs to no package.
SET_UP = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount --rbind /sys "$1/root/sys"
mount -t tmpfs tmpfs "$1/root/run"
mount -t tmpfs tmpfs "$1/root/media"
echo ready
exec sleep infinity
"""

# Files that dpkg and the programs it runs write for their own use.
OF_THE_SYSTEM = re.compile(
    r"var/lib/dpkg/.*|var/log/(dpkg|alternatives)\.log|var/cache/(man|ldconfig)/.*|etc/ld\.so\.cache|var/lib/man-db/.*"
    r"|usr/share/mime/(?!packages/).*|usr/share/applications/mimeinfo\.cache|etc/mailcap"
    r"|etc/(passwd|group|shadow|gshadow|subuid|subgid)-|etc/\.pwd\.lock|var/lib/systemd/.*")
# Files that listed the user weightfs, and do not any more.
USERS = ("etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/subuid", "etc/subgid")


def why_not():
    if os.geteuid() != 0:
        return "only root can install a package"
    for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "unshare", "nsenter"):
        if not shutil.which(tool):
            return f"no {tool} here"
    if not os.path.exists(os.path.join(BUILD, "CPackConfig.cmake")):
        return f"{os.path.basename(BUILD)} is no build that is packaged"
    return None


class Machine:
    """A copy of this machine that a test may change."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weightfs-machine-")
        self.first = subprocess.Popen([
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", SET_UP, "sh",
            self.folder
        ], stdout=subprocess.PIPE, text=True)
        if self.first.stdout.readline() != "ready\n":
            self.stop()
            raise unittest.SkipTest("no overlay of the root can be mounted here")
        # unshare waits for the first process of the namespaces, its child.
        with open(f"/proc/{self.first.pid}/task/{self.first.pid}/children") as file:
            self.inside = file.read().split()[0]

    def stop(self):
        self.first.kill()
        self.first.wait()
        self.first.stdout.close()
        os.rmdir(self.folder)

    def outside(self, path=""):
        """The path on this machine of a path in the copy."""
        return f"/proc/{self.inside}/root{self.folder}/{path}"

    def run(self, *argv):
        return subprocess.run([
            "nsenter", f"--target={self.inside}", "--mount", "--pid", "chroot", f"{self.folder}/root", "env", "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "WEIGHTFS_CACHE=/media/cache",
            "HOME=/media", *argv
        ], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)

    def changed(self):
        """Every changed file, and `gone: PATH` for every removed one."""
        upper = self.outside("upper")
        for folder, folders, files in os.walk(upper):
            for name in files + folders:
                path = os.path.join(folder, name)
                kind = os.lstat(path)
                inner = os.path.relpath(path, upper)
                if stat.S_ISCHR(kind.st_mode) and kind.st_rdev == 0:
                    yield f"gone: {inner}"
                elif name in files or not os.path.isdir(f"/{inner}"):
                    yield inner


class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        cls.folder = tempfile.mkdtemp(prefix="weightfs-package-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        done = subprocess.run(["cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-G", "DEB", "-B", cls.folder],
                              cwd=cls.folder, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.package, = glob.glob(os.path.join(cls.folder, "*.deb"))
        cls.content = os.path.join(cls.folder, "content")
        subprocess.run(["dpkg-deb", "-R", cls.package, cls.content], check=True, timeout=LIMIT_S)

    @classmethod
    def files(cls):
        """Every file and link of the package."""
        for folder, _, files in os.walk(cls.content):
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), cls.content)
                if not path.startswith("DEBIAN/"):
                    yield path


class Content(TestCase):
    def field(self, name):
        return subprocess.run(["dpkg-deb", "-f", self.package, name], check=True, capture_output=True, text=True).stdout.strip()

    def test_documents_link_to_installed_files(self):
        documents = glob.glob(os.path.join(self.content, "usr/share/doc/weightfs/**/*.md"), recursive=True)
        links = 0
        for document in documents:
            with open(document) as file:
                text = file.read()
            for link in re.findall(r"\]\(([^)#:]+)\)", text):
                links += 1
                self.assertTrue(os.path.exists(os.path.join(os.path.dirname(document), link)), f"{document}: {link}")
        self.assertGreater(links, 10)
        with open(os.path.join(self.content, "usr/share/doc/weightfs/README.md")) as file:
            self.assertNotIn("docs/", file.read())

    def test_files_are_at_debian_paths(self):
        files = set(self.files())
        needed = {"usr/bin/weightfs", "usr/sbin/mount.weightfs", "usr/sbin/mount.fuse.weightfs",
                  "usr/share/bash-completion/completions/weightfs", "usr/share/zsh/vendor-completions/_weightfs",
                  "usr/share/fish/vendor_completions.d/weightfs.fish",
                  "usr/share/doc/weightfs/copyright", "usr/share/doc/weightfs/changelog.gz",
                  "usr/share/doc/weightfs/changelog.Debian.gz", "usr/share/doc/weightfs/README.md",
                  "usr/share/doc/weightfs/semantics.md", "usr/share/mime/packages/weightfs.xml",
                  "usr/share/applications/weightfs-mount.desktop", "usr/libexec/weightfs/open-model"}
        if shutil.which("lowdown"):
            needed |= {
                f"usr/share/man/{page}.gz" for page in ("man1/weightfs.1", "man8/mount.weightfs.8", "man8/mount.fuse.weightfs.8")
            }
        self.assertEqual(needed - files, set())
        allowed = re.compile(
            r"(usr/(bin|sbin|libexec/weightfs|share/(man|doc/weightfs|lintian|zsh|fish|bash-completion|mime/packages|applications))|usr/lib/(systemd|sysusers\.d|tmpfiles\.d))/"
            r"|(etc/weightfs)/")
        self.assertEqual([file for file in files if not allowed.match(file)], [])

    def test_mount_helpers_are_links_to_the_program(self):
        for name in ("mount.weightfs", "mount.fuse.weightfs"):
            self.assertEqual(os.readlink(os.path.join(self.content, "usr/sbin", name)), "../bin/weightfs")

    def test_files_belong_to_root(self):
        lines = subprocess.run(["dpkg-deb", "-c", self.package], check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertGreater(len(lines), 10)
        modes = {"d": {"drwxr-xr-x"}, "l": {"lrwxrwxrwx"}, "-": {"-rw-r--r--", "-rwxr-xr-x"}}
        wrong = [line for line in lines if line.split()[0] not in modes[line[0]] or line.split()[1] != "root/root"
                 or (line.startswith("-rwx") and not line.endswith(("/usr/bin/weightfs", "/usr/libexec/weightfs/open-model")))]
        self.assertEqual(wrong, [])

    def test_every_file_has_a_checksum(self):
        with open(os.path.join(self.content, "DEBIAN", "md5sums")) as file:
            listed = {path: digest for digest, path in (line.split(None, 1) for line in file.read().splitlines())}
        there = {}
        for path in self.files():
            if not os.path.islink(os.path.join(self.content, path)):
                with open(os.path.join(self.content, path), "rb") as file:
                    there[path] = hashlib.md5(file.read()).hexdigest()
        self.assertEqual(listed, there)

    def test_dependencies_are_complete(self):
        # Since Debian 13 many names end with t64, and libfuse3-3 has become libfuse3-4.
        depends = {re.sub("t64$|(?<=libfuse3)-.*$", "", each.split()[0]) for each in self.field("Depends").split(", ")}
        self.assertLessEqual({"fuse3", "libfuse3", "libcurl4", "libc6", "libseccomp2", "libstdc++6"}, depends)
        self.assertEqual(self.field("Recommends"), "ca-certificates")

    def test_units_run_the_packaged_program(self):
        units = glob.glob(os.path.join(self.content, "usr/lib/systemd/*/*.service"))
        if not units:
            self.skipTest("the package has no units")
        for unit in units:
            with open(unit) as file:
                text = file.read()
            self.assertEqual(set(re.findall(r"/\S*bin/weightfs\b", text)), {"/usr/bin/weightfs"})
            page, = re.findall(r"^Documentation=.*file:(\S+)$", text, re.MULTILINE)
            self.assertTrue(os.path.exists(self.content + page), page)
        for generator in glob.glob(os.path.join(self.content, "usr/lib/systemd/system-generators/*")):
            self.assertEqual(os.readlink(generator), "../../../bin/weightfs")

    def test_program_is_stripped(self):
        sections = subprocess.run(["objdump", "-h", os.path.join(self.content, "usr/bin/weightfs")], check=True,
                                  capture_output=True, text=True).stdout
        self.assertIn(" .text", sections)
        self.assertNotIn(".debug_info", sections)

    def test_program_is_hardened(self):
        with open(os.path.join(BUILD, "CMakeCache.txt")) as file:
            if "WEIGHTFS_HARDEN:BOOL=ON" not in file.read():
                self.skipTest("this build is not hardened; scripts/package makes one that is")
        program = os.path.join(self.content, "usr/bin/weightfs")

        def readelf(*options):
            return subprocess.run(["readelf", "-W", *options, program], check=True, capture_output=True, text=True).stdout

        self.assertIn("DYN (Position-Independent Executable file)", readelf("-h"))
        segments = readelf("-l")
        self.assertIn("GNU_RELRO", segments)
        self.assertRegex(segments, r"GNU_STACK .* RW ")
        self.assertRegex(readelf("-d"), r"FLAGS_1.*NOW.*PIE")
        # The linker marks the program (readelf -n) only if the objects of the C library are marked, which Debian 12's are not.
        if os.uname().machine == "x86_64":
            code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], check=True, capture_output=True,
                                  text=True).stdout
            self.assertGreater(code.count("endbr64"), 1000)
        symbols = readelf("--dyn-syms")
        self.assertRegex(symbols, r"__stack_chk_fail")
        self.assertRegex(symbols, r"__\w+_chk@")
        self.assertRegex(symbols, r"__glibcxx_assert_fail")
        with open(program, "rb") as file:
            self.assertNotIn(b"WEIGHTFS_TEST_COMPROMISE", file.read())

    def test_compile_flags_include_hardening(self):
        """The flags of the preset that scripts/package builds."""
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with tempfile.TemporaryDirectory() as build:
            subprocess.run(["cmake", "--preset", "release", "-B", build], cwd=home, check=True, capture_output=True,
                           timeout=LIMIT_S)
            with open(os.path.join(build, "compile_commands.json")) as file:
                commands = [entry["command"] for entry in json.load(file)]
            with open(os.path.join(build, "build.ninja")) as file:
                link = re.search(r"^build weightfs: .*?LINK_FLAGS = ([^\n]*)", file.read(), re.M | re.S)[1]
        self.assertGreater(len(commands), 20)
        for flag in ("-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS", "-fstack-clash-protection", "-ftrivial-auto-var-init=zero",
                     "-fstack-protector-strong", "-fPI"):
            self.assertEqual([command for command in commands if flag not in command], [], flag)
        if os.uname().machine == "x86_64":
            self.assertEqual([command for command in commands if "-fcf-protection=full" not in command], [])
        for flag in ("-pie", "-Wl,-z,relro", "-Wl,-z,now"):
            self.assertIn(flag, link)

    def test_lintian_reports_nothing(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian here")
        pages = [] if shutil.which("lowdown") else ["--suppress-tags", "no-manual-page"]
        done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", *pages, self.package], capture_output=True,
                              text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


# In place of a desktop: each writes its last argument as a line.
STUBS = {
    "xdg-open": 'printf "%s\\n" "$1" >>"$SEEN/opened"',
    "notify-send": 'for last; do :; done; printf "%s\\n" "$last" >>"$SEEN/errors"'
}


class Desktop(TestCase):
    """The file types, and the desktop entry that mounts models."""

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="weightfs-desktop-")
        self.addCleanup(shutil.rmtree, self.tmp)
        for name in ("bin", "run", "models"):
            os.mkdir(os.path.join(self.tmp, name))
        for name, line in STUBS.items():
            path = os.path.join(self.tmp, "bin", name)
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\n{line}\n")
            os.chmod(path, 0o755)
        self.addCleanup(self.unmount)

    def unmount(self):
        for point in self.mounts():
            subprocess.run([self.program(), "umount", point], check=True, timeout=LIMIT_S)

    def program(self):
        return os.path.join(self.content, "usr/bin/weightfs")

    def mounts(self):
        folder = os.path.join(self.tmp, "run", "weightfs-models")
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name != ".lock") if os.path.isdir(folder) else []

    def model(self, name):
        path = os.path.join(self.tmp, "models", name)
        containers.WRITERS["gguf"](path, [Tensor("bias", "int8", (3,), b"\1\2\3")], None)
        return path

    def entry(self):
        with open(os.path.join(self.content, "usr/share/applications/weightfs-mount.desktop")) as file:
            return dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)

    def call(self, *models, status=0, **environment):
        """Runs the command of the entry, as a desktop does."""
        command, = re.fullmatch(r'"(/usr/libexec/\S+)" %F', self.entry()["Exec"]).groups()
        done = subprocess.run(
            [self.content + command, *models], capture_output=True, text=True, timeout=LIMIT_S, env={
                "PATH": f"{self.tmp}/bin:{os.environ['PATH']}", "XDG_RUNTIME_DIR": f"{self.tmp}/run", "SEEN": self.tmp,
                "WEIGHTFS": self.program(), "HOME": self.tmp, "WEIGHTFS_CACHE": f"{self.tmp}/cache", **environment
            })
        self.assertEqual(done.returncode, status, done.stderr)

    def seen(self, name):
        path = os.path.join(self.tmp, name)
        if not os.path.exists(path):
            return []
        with open(path) as file:
            lines = file.read().splitlines()
        os.remove(path)
        return lines

    # semantics 17.10
    def test_file_types_are_known(self):
        for tool in ("update-mime-database", "xdg-mime", "desktop-file-validate"):
            if not shutil.which(tool):
                self.skipTest(f"no {tool} here")
        data = os.path.join(self.tmp, "data")
        shutil.copytree(os.path.join(self.content, "usr/share/mime"), os.path.join(data, "mime"))
        subprocess.run(["update-mime-database", os.path.join(data, "mime")], check=True, capture_output=True, timeout=LIMIT_S)
        with open(os.path.join(data, "mime", "types")) as file:
            types = file.read().splitlines()
        self.assertEqual(sorted(self.entry()["MimeType"].strip(";").split(";")), sorted(types))
        with open(os.path.join(data, "mime", "globs2")) as file:
            globs = {line.rsplit(":", 1)[1].strip() for line in file if not line.startswith("#")}
        self.assertLessEqual(
            {
                "*.gguf", "*.safetensors", "*.onnx", "*.rten", "*.carton", "*.bt", "*.bintensors", "*.tflite", "*.pte", "*.mlmodel",
                "*.npz"
            }, globs)
        for name, expected in (("m.gguf", "application/x-gguf"), ("m.safetensors", "application/x-safetensors")):
            done = subprocess.run(["xdg-mime", "query", "filetype", self.model(name)], capture_output=True, text=True,
                                  timeout=LIMIT_S, env=dict(os.environ, XDG_DATA_HOME=data, XDG_DATA_DIRS="/usr/share",
                                                            HOME=self.tmp))
            if done.stdout.strip() != "application/octet-stream":  # of file(1), where no tool of a desktop is installed
                self.assertEqual(done.stdout.strip(), expected)
        done = subprocess.run(
            ["desktop-file-validate",
             os.path.join(self.content, "usr/share/applications/weightfs-mount.desktop")], capture_output=True, text=True,
            timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_models_are_mounted_and_opened(self):
        names = ["tiny.gguf", "it's $(a) \"b\" -c.gguf", "-x.gguf"]
        models = [self.model(name) for name in names]
        self.call(*models)
        opened = self.seen("opened")
        self.assertEqual([os.path.basename(point).rsplit("-", 1)[0] for point in opened], names)
        for point in opened:
            with open(os.path.join(point, "tensors", "bias"), "rb") as file:
                self.assertEqual(file.read(), b"\1\2\3")
        self.call(models[0])
        self.assertEqual((self.seen("opened"), self.mounts()), ([opened[0]], sorted(opened)))
        self.assertEqual(self.seen("errors"), [])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_changed_file_gets_another_mount(self):
        model = self.model("tiny.gguf")
        self.call(model)
        os.utime(model, (1, 1))
        self.call(model)
        self.assertEqual(len(set(self.seen("opened"))), 2)

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_mount_of_a_dead_server_is_removed(self):
        self.call(self.model("dead.gguf"))
        dead, = self.seen("opened")
        mounted = json.loads(
            subprocess.run([self.program(), "mounts", "--json"], check=True, capture_output=True, text=True,
                           timeout=LIMIT_S).stdout)
        os.kill(next(each["pid"] for each in mounted if each["mountpoint"] == dead), 9)
        self.call(self.model("other.gguf"))
        self.assertEqual(self.mounts(), self.seen("opened"))

    def test_errors_are_shown_on_the_desktop(self):
        bad = os.path.join(self.tmp, "models", "a<b&.gguf")
        with open(bad, "w") as file:
            file.write("GGUF")
        self.call(bad, os.path.join(self.tmp, "absent"), status=1)
        errors = self.seen("errors")
        self.assertEqual(len(errors), 2)
        self.assertIn("a&lt;b&amp;.gguf: gguf: ends at byte 4", errors[0])
        self.assertIn("absent", errors[1])
        self.assertEqual((self.seen("opened"), self.mounts()), ([], []))
        self.call(bad, status=1, XDG_RUNTIME_DIR="")
        self.assertIn("XDG_RUNTIME_DIR", self.seen("errors")[0])


class Placed(TestCase):
    """Installation by cmake --install, without a package."""

    def install(self, *argv, **environment):
        return subprocess.run(["cmake", "--install", BUILD, *argv], check=True, capture_output=True, text=True, timeout=LIMIT_S,
                              env=dict(os.environ, **environment)).stderr

    def links(self, prefix):
        return {os.readlink(os.path.join(prefix, "sbin", name)) for name in ("mount.weightfs", "mount.fuse.weightfs")}

    def test_other_prefix_prints_required_links(self):
        prefix = os.path.join(self.folder, "local")
        output = self.install("--prefix", prefix)
        for kind in ("weightfs", "fuse.weightfs"):
            self.assertIn(f"ln -s {prefix}/bin/weightfs /sbin/mount.{kind}\n", output)
        self.assertEqual(self.links(prefix), {"../bin/weightfs"})
        self.assertTrue(os.path.exists(os.path.join(prefix, "share/zsh/site-functions/_weightfs")))

    def test_usr_prefix_installs_everything(self):
        folder = os.path.join(self.folder, "staged")
        self.assertEqual(self.install("--prefix", "/usr", DESTDIR=folder), "")
        self.assertEqual(self.links(os.path.join(folder, "usr")), {"../bin/weightfs"})
        self.assertTrue(os.path.exists(os.path.join(folder, "usr/share/zsh/vendor-completions/_weightfs")))


class Installed(TestCase):
    def setUp(self):
        self.machine = Machine()
        self.addCleanup(self.machine.stop)
        media = self.machine.outside("root/media")
        shutil.copy(self.package, os.path.join(media, "weightfs.deb"))
        os.makedirs(os.path.join(media, "my, models"))
        containers.WRITERS["safetensors"](os.path.join(media, "my, models", "a model.safetensors"),
                                          [Tensor("bias", "int8", (3,), b"\1\2\3")], None)
        os.makedirs(os.path.join(media, "mnt"))

    def do(self, *argv, status=0):
        done = self.machine.run(*argv)
        self.assertEqual(done.returncode, status, f"{argv}: {done.stdout}{done.stderr}")
        return done.stdout

    def tensor(self):
        return self.do("cat", "/media/mnt/tensors/bias")

    def wait_for_the_server_to_end(self):
        self.assertTrue(
            eventually(lambda: self.machine.run("sh", "-c", "grep -qsx weightfs /proc/[0-9]*/comm").returncode != 0, LIMIT_S))

    def left(self):
        """Files of the package that remain, without those of the system."""
        for path in self.machine.changed():
            if path in USERS:
                with open(self.machine.outside(f"upper/{path}"), "rb") as now, open(f"/{path}", "rb") as before:
                    if now.read() != before.read():
                        yield path
            elif not OF_THE_SYSTEM.fullmatch(path) and not OF_THE_SYSTEM.fullmatch(path + "/"):
                yield path

    def test_install_use_and_purge_leave_no_trace(self):
        self.do("dpkg", "-i", "/media/weightfs.deb")
        self.assertRegex(self.do("weightfs", "--version"), r"weightfs \d+\.\d+\.\d+\n")
        # A small image may configure dpkg to exclude manual pages.
        if shutil.which("man") and self.machine.run("test", "-e", "/usr/share/man/man1/weightfs.1.gz").returncode == 0:
            self.assertIn("--cache-size SIZE", self.do("man", "1", "weightfs"))
            self.assertIn("/etc/fstab", self.do("man", "8", "mount.weightfs"))
        self.do("bash", "-c", ". /usr/share/bash-completion/completions/weightfs; complete -p weightfs")
        self.do("dpkg", "-r", "weightfs")
        self.do("dpkg", "-P", "weightfs")
        self.assertEqual(sorted(self.left()), [])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_mount_type_is_available(self):
        self.do("dpkg", "-i", "/media/weightfs.deb")
        model = "/media/my, models/a model.safetensors"
        for kind in ("weightfs", "fuse.weightfs"):
            with self.subTest(kind):
                self.do("mount", "-t", kind, "-o", "offline,cache_size=1G", model, "/media/mnt")
                self.assertEqual(self.tensor(), "\1\2\3")
                self.do("umount", "/media/mnt")
                self.wait_for_the_server_to_end()

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_fstab_supports_spaces_and_commas(self):
        self.do("dpkg", "-i", "/media/weightfs.deb")
        with open(self.machine.outside("root/media/fstab"), "w") as file:
            file.write(r'/media/my,\040models/a\040model.safetensors /media/mnt weightfs noauto,user,nofail,'
                       r'blob_dir="/media/my,\040models" 0 0' "\n")
        self.do("mount", "--fstab", "/media/fstab", "/media/mnt")
        self.assertEqual(self.tensor(), "\1\2\3")
        options = self.do("findmnt", "-no", "OPTIONS", "/media/mnt").strip().split(",")
        self.assertLessEqual({"ro", "nosuid", "nodev"}, set(options))
        self.do("umount", "/media/mnt")
        self.wait_for_the_server_to_end()

    def test_purge_removes_configs_and_keeps_user_files(self):
        self.do("dpkg", "-i", "/media/weightfs.deb")
        users = os.path.join(self.content, "usr/lib/sysusers.d/weightfs.conf")
        if os.path.exists(users) and shutil.which("systemd-sysusers"):
            self.assertIn("/var/lib/weightfs", self.do("getent", "passwd", "weightfs"))
        self.do("sh", "-c", "mkdir -p /etc/weightfs/mounts.d /var/lib/weightfs /var/cache/weightfs-service /var/cache/weightfs && "
                "touch /etc/weightfs/mounts.d/one.conf /etc/weightfs/notes /var/lib/weightfs/x /var/cache/weightfs-service/x "
                "/var/cache/weightfs/x")
        wants = "/etc/systemd/system/weightfs-test.target.wants"
        self.do("sh", "-c", f"mkdir -p {wants} && ln -s /lib/systemd/system/weightfs@.service {wants}/weightfs@one.service")
        self.do("dpkg", "-r", "weightfs")
        self.do("test", "-e", "/etc/weightfs/mounts.d/one.conf")
        self.assertIn("caches", self.do("dpkg", "-P", "weightfs"))
        self.do("rmdir", wants)
        # The directory of root's cache may have existed before.
        self.assertEqual(sorted(set(self.left()) - {"var/cache/weightfs"}),
                         ["etc/weightfs", "etc/weightfs/notes", "var/cache/weightfs/x"])


if __name__ == "__main__":
    unittest.main()
