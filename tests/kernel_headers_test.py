"""Sources include only headers of the kernel that are known to be C++, and these compile with the installed version.

The kernel's headers are written for C. A security update of Debian 12 (linux-libc-dev 6.1.192-2) named a parameter of
linux/ioprio.h `class`, so that no C++ program could include it. base/os/kernel.h has the constants of such headers.
"""
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("base", "formats", "numbers", "cache", "protocols", "sources", "fs", "report", "serve", "cli", "tests", "bench")

# Each with what it is needed for. All are plain structures, enumerations and macros, without functions.
ALLOWED = {
    "linux/capability.h": "the structures of capset(2), which the C library does not declare",
    "linux/filter.h": "the structure of SO_ATTACH_FILTER, which the tests of the sandbox try",
    "linux/fsverity.h": "requests of ioctl(2), which the test of the sandbox tries",
    "linux/fuse.h": "the structures of the FUSE protocol",
    "linux/openat2.h": "the structure of openat2(2), which the C library declares since glibc 2.43",
}

# What base/os/kernel.h says of the headers that it replaces.
LOCAL = ("EXT4_SUPER_MAGIC", "XFS_SUPER_MAGIC", "BTRFS_SUPER_MAGIC", "TMPFS_MAGIC", "OVERLAYFS_SUPER_MAGIC", "F2FS_SUPER_MAGIC",
         "RAMFS_MAGIC", "SQUASHFS_MAGIC", "EXFAT_SUPER_MAGIC", "MSDOS_SUPER_MAGIC", "ISOFS_SUPER_MAGIC")
REPLACED = {
    "linux/fs.h": "kClone == FICLONE && kCloneRange == FICLONERANGE && sizeof(CloneRange) == sizeof(file_clone_range)",
    "linux/ioprio.h": "kIoPriorityOfThread == IOPRIO_WHO_PROCESS && kIoPriorityIdle == (IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT)",
    "linux/magic.h": " && ".join(
        ["kFuseMagic == FUSE_SUPER_MAGIC", *(f"kLocalMagics[{i}] == {name}" for i, name in enumerate(LOCAL))]),
    "linux/netlink.h": "kNetlinkRoute == NETLINK_ROUTE",
    "asm/termbits.h": "kTerminalAttributes == _IOR('T', 0x2A, struct termios2)",
}

INCLUDE = re.compile(r"^\s*#\s*include\s*<((?:linux|asm|asm-generic|mtd|rdma|scsi|sound|video|xen)/[^>]+)>", re.M)
COMPILERS = [compiler for compiler in ("g++", "clang++", "aarch64-linux-gnu-g++") if shutil.which(compiler)]


def kernel_headers():
    """The headers of the kernel that sources include, each with one of these sources."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".c"):
                for header in INCLUDE.findall(path.read_text(errors="replace")):
                    found.setdefault(header, path.relative_to(ROOT))
    return found


def errors_of(compiler, source, *options):
    """What the compiler prints about a source, or nothing if it compiles."""
    argv = [compiler, "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", *options, "-x", "c++", "-"]
    done = subprocess.run(argv, input=source, capture_output=True, text=True)
    return done.stderr or done.stdout if done.returncode else ""


class KernelHeaders(unittest.TestCase):
    def test_only_allowed_ones_are_included(self):
        found = kernel_headers()
        for header, path in found.items():
            with self.subTest(header):
                self.assertIn(header, ALLOWED, f"included by {path}: define its constants in base/os/kernel.h")
        self.assertEqual(set(ALLOWED) - set(found), set(), "no longer included")

    @unittest.skipUnless(COMPILERS, "no compiler is installed")
    def test_each_compiles_alone(self):
        for header in sorted(kernel_headers()):
            for compiler in COMPILERS:
                with self.subTest(header=header, compiler=compiler):
                    self.assertEqual(errors_of(compiler, f"#include <{header}>\n"), "")

    @unittest.skipUnless(COMPILERS, "no compiler is installed")
    def test_constants_are_those_of_the_kernel(self):
        checked = 0
        for header, condition in REPLACED.items():
            for compiler in COMPILERS:
                if errors_of(compiler, f"#include <{header}>\n"):
                    continue  # which is why it is replaced
                source = f'#include <{header}>\n#include "base/os/kernel.h"\nusing namespace weightfs::kernel;\nstatic_assert({condition});\n'
                with self.subTest(header=header, compiler=compiler):
                    self.assertEqual(errors_of(compiler, source, f"-I{ROOT}"), "")
                    checked += 1
        self.assertGreaterEqual(checked, len(COMPILERS))

    @unittest.skipUnless(COMPILERS, "no compiler is installed")
    def test_header_with_a_parameter_named_class_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "linux").mkdir()
            header = "static inline int value(int class, int data) { return class + data; }\n"
            (Path(folder) / "linux" / "ioprio.h").write_text(header)
            for compiler in COMPILERS:
                with self.subTest(compiler):
                    errors = errors_of(compiler, "#include <linux/ioprio.h>\n", "-isystem", folder)
                    self.assertIn("linux/ioprio.h", errors)


if __name__ == "__main__":
    unittest.main()
