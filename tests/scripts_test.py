"""The scripts that build and test: packages, progress, the first error, and tests that pass only when they are repeated."""
import argparse
import os
import pty
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(os.path.dirname(HERE), "scripts")
sys.path.insert(0, HERE)
import run  # noqa: E402
import tables  # noqa: E402

LIMIT_S = 60

COMPILER = """[1/49] Building CXX object a.o
[2/49] Building CXX object b.o
FAILED: b.o
In file included from b.cc:3:
/usr/include/linux/ioprio.h:101:48: error: expected identifier before 'class'
  101 | static inline int value(int class)
second/file.cc:9:1: error: 'x' was not declared
[49/49] Building CXX object z.o
ninja: build stopped: subcommand failed."""


class ScriptTestCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weightfs-scripts-ü -")
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        for name in ("scripts", "bin"):
            os.mkdir(os.path.join(self.home, name))
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        self.environment = dict(environment, PATH=f"{self.home}/bin:{os.environ['PATH']}", LOG=self.path("calls"))

    def path(self, *names):
        return os.path.join(self.home, *names)

    def program(self, text, *names):
        """A shell script in the place of a program."""
        with open(self.path(*names), "w") as file:
            file.write(f"#!/bin/bash\n{text}\n")
        os.chmod(file.name, stat.S_IRWXU)

    def script(self, name):
        return shutil.copy(os.path.join(SCRIPTS, name), self.path("scripts"))

    def run_script(self, *argv, limit_s=LIMIT_S, **more):
        return subprocess.run(argv, env=dict(self.environment, **more), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=limit_s)

    def calls(self):
        if not os.path.exists(self.path("calls")):
            return []
        with open(self.path("calls")) as file:
            return [line.split() for line in file]


class Build(ScriptTestCase):
    def setUp(self):
        super().setUp()
        self.build = self.script("build")
        self.program(":", "scripts", "dependencies")

    def test_first_error_is_printed_and_the_path_of_the_log(self):
        self.program(f'case $1 in --build) cat <<"END"\n{COMPILER}\nEND\nexit 1 ;; esac', "bin", "cmake")
        done = self.run_script(self.build, "build", "release", self.path("build", "log"))
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()
        self.assertEqual(lines[0], "/usr/include/linux/ioprio.h:101:48: error: expected identifier before 'class'")
        self.assertEqual(lines[-1], f"the build failed; the whole log is {self.path('build', 'log')}")

    def test_error_of_apt_is_printed(self):
        self.program('echo "Reading package lists..."; echo "E: Unable to locate package libfuse9-dev"; exit 100', "scripts",
                     "dependencies")
        self.program('echo cmake >>"$LOG"', "bin", "cmake")
        done = self.run_script(self.build, "build", "release", self.path("log"))
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (1, "E: Unable to locate package libfuse9-dev"))
        self.assertEqual(self.calls(), [])

    def test_progress_is_a_line_from_time_to_time(self):
        self.program('if [ "$1" = --build ]; then echo "[12/49] Building CXX object a.o"; sleep 1; fi', "bin", "cmake")
        done = self.run_script(self.build, "build", "release", self.path("log"), BUILD_PROGRESS_SECONDS="0.1")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"(?m)^compiling: 12 of 49 files, \d+ s$")
        self.assertNotIn("\r", done.stderr)

    def test_progress_on_a_terminal_is_one_line_that_is_erased(self):
        self.program('if [ "$1" = --build ]; then echo "[12/49] Building CXX object a.o"; sleep 2; fi', "bin", "cmake")
        master, slave = pty.openpty()
        with open(master, "rb", buffering=0) as terminal:
            process = subprocess.Popen([self.build, "build", "release", self.path("log")], env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
            os.close(slave)
            shown = b""
            try:
                while part := terminal.read(4096):
                    shown += part
            except OSError:
                pass  # the terminal has no writer any more
            self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertRegex(shown.decode(), r"\r\x1b\[Kcompiling: 12 of 49 files, \d+ s")
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertNotIn(b"\n", shown)


class Quickstart(ScriptTestCase):
    def message(self, *programs):
        """What it prints where there is no apt-get, but these programs."""
        quickstart = self.script("quickstart")
        for name in ("dirname", "env", "bash"):
            os.symlink(shutil.which(name), self.path("bin", name))
        for name in programs:
            self.program('echo "$@" >>"$LOG"', "bin", name)
        done = self.run_script(quickstart, PATH=self.path("bin"))
        self.assertEqual((done.returncode, done.stdout, self.calls()), (1, "", []))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("use the portable program (README.md, Install), or", done.stderr)
        self.assertTrue(done.stderr.endswith("&& cmake --preset release && cmake --build --preset release\n"), done.stderr)
        return done.stderr

    def test_message_without_apt_names_the_other_ways(self):
        self.assertIn("the packages that scripts/dependencies names", self.message())

    def test_message_on_fedora_has_a_package_for_each_of_debian(self):
        install, = re.findall("dnf install (.*?) &&", self.message("dnf"))
        listed = subprocess.run(["bash", "-c", 'source <(sed "/^only_print=/,\\$d" "$0"); echo "${build[@]}" "${run[@]}"',
                                 os.path.join(SCRIPTS, "dependencies")], capture_output=True, text=True, check=True)
        self.assertEqual(len(install.split()), len(listed.stdout.split()), listed.stdout)
        self.assertLessEqual({"gcc-c++", "fuse3-devel", "expected-devel", "python3"}, set(install.split()))

    def test_message_on_arch_names_its_packages(self):
        install, = re.findall("pacman -S (.*?) &&", self.message("pacman"))
        self.assertLessEqual({"gcc", "fuse3", "tl-expected", "python"}, set(install.split()))


class Package(ScriptTestCase):
    def test_wheel_has_the_program(self):
        shutil.copytree(os.path.join(os.path.dirname(HERE), "python"), self.path("python"))
        shutil.copy(os.path.join(os.path.dirname(HERE), "CMakeLists.txt"), self.home)
        package = self.script("package")
        os.mkdir(self.path("packaging"))
        self.program("mkdir build", "scripts", "build")
        folder = "build/portable/portable/weightfs-1-linux-x86_64"
        self.program(f'mkdir -p {folder} && echo program >{folder}/weightfs && echo {folder}.tar.xz', "packaging", "portable")
        done = self.run_script(package, "--wheel")
        self.assertEqual(done.returncode, 0, done.stderr)
        with zipfile.ZipFile(self.path(done.stdout.strip())) as wheel:
            program = wheel.getinfo(next(name for name in wheel.namelist() if name.endswith(".data/scripts/weightfs")))
            self.assertEqual((wheel.read(program), program.external_attr >> 16 & 0o777), (b"program\n", 0o755))
            self.assertIn("weightfs/__init__.py", wheel.namelist())
            info = wheel.read(next(name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))).decode()
        tags = [f"py3-none-{each}_x86_64" for each in ("manylinux_2_17", "manylinux2014", "musllinux_1_1")]
        self.assertEqual([line[5:] for line in info.splitlines() if line.startswith("Tag: ")], tags)
        self.assertTrue(done.stdout.strip().endswith("-py3-none-" + ".".join(each[9:] for each in tags) + ".whl"))

    def test_image_has_the_portable_program(self):
        package = self.script("package")
        os.mkdir(self.path("packaging"))
        self.program("mkdir build", "scripts", "build")
        folder = "build/portable/portable/weightfs-1-linux-x86_64"
        self.program(f"mkdir -p {folder} && echo {folder}.tar.xz", "packaging", "portable")
        self.program('echo "$@" "$SOURCE_DATE_EPOCH" >>"$LOG"; echo "$2/image.oci.tar"', "packaging", "image")
        done = self.run_script(package, "--image", SOURCE_DATE_EPOCH="1")
        self.assertEqual((done.returncode, done.stdout), (0, "build/portable/image.oci.tar\n"), done.stderr)
        self.assertEqual(self.calls(), [[folder, "build/portable", "1"]])

    def test_unknown_option_prints_the_usage(self):
        done = self.run_script(self.script("package"), "--other")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--wheel", done.stderr)


class Release(ScriptTestCase):
    """The script with stand-ins for those that it calls."""

    PACKAGE = """case "$*" in
      --portable) name=weightfs-0.1.0-linux-$(uname -m).tar.xz ;;
      --wheel) name=weightfs-0.1.0-py3-none-$(uname -m).whl ;;
      --image) name=weightfs-0.1.0-linux-$(uname -m).oci.tar ;;
      "") name=weightfs_0.1.0-1_$(dpkg --print-architecture).deb ;;
      "--portable --arch arm64") name=weightfs-0.1.0-linux-aarch64.tar.xz ;;
      *) name=weightfs-0.1.0${1// /}-arm64 ;;
    esac
    mkdir -p build && echo "${CONTENT-$PWD}" >"build/$name" && echo "$PWD/build/$name" """

    def setUp(self):
        super().setUp()
        self.release = self.script("release")
        os.mkdir(self.path("tests"))
        self.program("echo 0", "bin", "id")
        self.program(":", "scripts", "dependencies")
        self.program(self.PACKAGE, "scripts", "package")
        for name in ("portable", "arm64", "fresh_root"):
            self.program(f'echo {name} "$@" >>"$LOG"', "tests", name)
        for name, text in ((".gitignore", "build/\nbin/\ncalls\n"), ("CMakeLists.txt", "project(weightfs VERSION 0.1.0 X)\n")):
            with open(self.path(name), "w") as file:
                file.write(text)
        for words in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
            subprocess.run(["git", *words], cwd=self.home, check=True)

    def test_files_are_made_twice_and_checked(self):
        for options in ([], ["--arm64"]):
            done = self.run_script(self.release, *options, CONTENT="the same")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            with open(self.path("build", "release-0.1.0", "SHA256SUMS")) as file:
                names = [line.split()[1] for line in file]
            self.assertEqual(len(names), 8 if options else 4, names)
            listed = dict(reversed(line.split()) for line in done.stdout.splitlines() if not line.startswith("=="))
            self.assertEqual(listed.pop("SHA256SUMS"), str(os.path.getsize(file.name)))
            self.assertEqual(listed, dict.fromkeys(names, "9"))
        calls = self.calls()
        self.assertEqual([call[0] for call in calls], ["portable", "fresh_root", "portable", "arm64", "fresh_root"])
        self.assertEqual(os.path.basename(calls[3][-1]), "weightfs-0.1.0-linux-aarch64.tar.xz")

    def test_builds_that_differ_are_refused(self):
        done = self.run_script(self.release)
        self.assertEqual((done.returncode, self.calls()), (1, []))
        self.assertIn("release: two builds differ", done.stderr)

    def test_tree_with_changes_is_refused(self):
        with open(self.path("new"), "w"):
            pass
        done = self.run_script(self.release)
        self.assertEqual((done.returncode, done.stderr), (1, "release: the tree has changes; commit or remove them: ?? new\n"))


class Tidy(ScriptTestCase):
    def setUp(self):
        super().setUp()
        self.tidy = self.script("tidy")
        self.program(":", "bin", "cmake")
        self.program('echo "${@: -1}" >>"$LOG"; echo "9 warnings generated." >&2; ! grep -s wrong "${@: -1}"', "bin", "clang-tidy")
        for name in ("base", "bench", "cache", "cli", "formats", "fs", "numbers", "protocols", "report", "serve",
                     "sources", "tests"):
            os.mkdir(self.path(name))
        self.write("base", "a.cc")
        self.write("tests", "b c.cc")

    def write(self, *names, text=""):
        with open(self.path(*names), "w") as file:
            file.write(text)

    def git(self, *argv):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *argv], cwd=self.home, check=True,
                       timeout=LIMIT_S, env=self.environment, capture_output=True)

    def examined(self, *argv):
        """The files that are examined, without findings."""
        done = self.run_script(self.tidy, *argv)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        return sorted(" ".join(words) for words in self.calls())

    def test_examines_all_files(self):
        self.assertEqual(self.examined(), ["base/a.cc", "tests/b c.cc"])

    def test_examines_the_named_files(self):
        self.assertEqual(self.examined("tests/b c.cc"), ["tests/b c.cc"])

    def test_examines_the_files_that_differ_from_the_base(self):
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "-m", "Base")
        self.assertEqual(self.examined("--changed", "main"), [])
        self.write("base", "a.cc", text="// changed")
        self.write("base", "a.h")
        os.unlink(self.path("tests", "b c.cc"))
        self.git("add", "--all")
        self.assertEqual(self.examined("--changed", "main"), ["base/a.cc", "base/a.h"])

    def test_finding_is_printed_and_fails(self):
        self.write("base", "a.cc", text="this is wrong")
        done = self.run_script(self.tidy)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "this is wrong\n", ""))
        self.assertEqual(len(self.calls()), 2)

    def test_unknown_option_prints_the_usage(self):
        for argv in (["--other"], ["--changed"], ["--help"]):
            done = self.run_script(self.tidy, *argv)
            self.assertEqual((done.returncode, done.stderr), (2, "usage: tidy [FILE... | --changed BASE]\n"))


class Dependencies(ScriptTestCase):
    """scripts/dependencies on a machine where all packages are installed."""

    def setUp(self):
        super().setUp()
        self.dependencies = self.script("dependencies")
        self.program('[ "$1" = --print-architecture ] && echo amd64', "bin", "dpkg")
        self.program('printf "installed %s:amd64\\n" $INSTALLED', "bin", "dpkg-query")
        self.program('echo "  Depends: $2-12"', "bin", "apt-cache")
        self.program('echo "$@" >>"$LOG"', "bin", "apt-get")
        self.program('exec "$@"', "bin", "sudo")
        for name in ("tee", "chmod", "rm"):  # of policy-rc.d
            self.program(":", "bin", name)
        missing = self.run_script(self.dependencies, "--missing", "build", INSTALLED="none")
        self.assertEqual((missing.returncode, missing.stderr), (0, ""))
        self.all = missing.stdout.split()

    def test_installed_packages_are_left_alone(self):
        done = self.run_script(self.dependencies, "build", INSTALLED=" ".join(self.all))
        self.assertEqual((done.returncode, done.stdout, self.calls()), (0, "", []))

    def test_missing_packages_are_printed(self):
        self.assertIn("libfuse3-dev", self.all)
        done = self.run_script(self.dependencies, "--missing", "build", INSTALLED=" ".join(set(self.all) - {"libfuse3-dev", "g++"}))
        self.assertEqual((done.returncode, set(done.stdout.split()), self.calls()), (0, {"libfuse3-dev", "g++"}, []))

    def test_package_of_another_architecture_does_not_count(self):
        self.program('printf "installed %s:arm64\\n" $INSTALLED', "bin", "dpkg-query")
        done = self.run_script(self.dependencies, "--missing", "build", INSTALLED=" ".join(self.all))
        self.assertEqual(done.stdout.split(), self.all)

    def test_portable_program_for_arm64_has_its_own_isa_l(self):
        for purpose, unpacks in (("portable-arm64", False), ("package-arm64", True)):
            done = self.run_script(self.dependencies, "--missing", purpose, INSTALLED="none")
            self.assertEqual("libisal-dev:arm64" in done.stdout.split(), unpacks, done.stdout)

    def test_ci_upgrades_all_with_the_headers_and_the_compilers(self):
        done = self.run_script(self.dependencies, "build", INSTALLED=" ".join(self.all), CI="true")
        self.assertEqual(done.returncode, 0, done.stderr)
        update, install = self.calls()
        self.assertIn("update", update)
        self.assertIn("install", install)
        self.assertLessEqual({*self.all, "linux-libc-dev", "libc6-dev", "g++-12", "gcc-12"}, set(install))


class Tables(unittest.TestCase):
    def test_each_mount_file_is_sanitized_or_has_a_reason(self):
        files = [run.jobs.name_of(file) for file in run.jobs.files_in("mount", "test_*.py")]
        cases = {name for name in files if name.startswith("test_cases_")}
        self.assertEqual(sorted(cases | (tables.SANITIZED.keys() - {"test_cases_"}) | tables.NOT_SANITIZED.keys()), files)
        self.assertEqual((cases | tables.SANITIZED.keys()) & tables.NOT_SANITIZED.keys(), set())
        programs = [run.jobs.name_of(file) for file in run.jobs.files_in("", "*_test.py")]
        self.assertLessEqual(set(tables.PORTABLE_FILES), {*files, *programs})

    def test_jobs_that_wait_and_jobs_that_compute_are_mixed(self):
        self.assertEqual(run.jobs.mixed(["a", "b"], [1, 2, 3, 4]), ["a", 1, 2, "b", 3, 4])
        self.assertEqual(run.jobs.mixed([], [1]), [1])


class Repeated(ScriptTestCase):
    JOB = run.jobs.Job("x_test, plain", None, "x_test")

    def test_tests_that_pass_only_then_fail_the_run(self):
        result, lines = run.judged(self.JOB, {"A.B", "A.C"}, run.Result(10, 0, 0))
        self.assertEqual((result.passed, result.failed), (8, 2))
        self.assertEqual(lines[0], "passed only when run once more: A.B (x_test, plain): this fails the run")

    def test_tests_that_are_known_to_be_unsteady_do_not(self):
        with unittest.mock.patch.dict(tables.UNSTEADY, {"A.B": "its server is slow"}):
            result, lines = run.judged(self.JOB, {"A.B"}, run.Result(10, 0, 0))
        self.assertEqual((result.passed, result.failed), (10, 0))
        self.assertEqual(lines, ["passed only when run once more: A.B (x_test, plain): its server is slow"])

    def test_tests_that_fail_again_are_counted_once(self):
        result, lines = run.judged(self.JOB, {"A.B"}, run.Result(9, 1, 0))
        self.assertEqual((result.passed, result.failed, lines), (9, 1, []))

    # A test that fails once.
    TEST = """
    report=${2#--gtest_output=json:}
    [ -e "$LOG" ] || failures=',"failures":[{}]'
    touch "$LOG"
    echo '{"testsuites":[{"name":"A","testsuite":[{"name":"B","status":"RUN","result":"COMPLETED","time":"0s"'"$failures"'}]}]}' >"$report"
    [ -z "$failures" ]"""

    def test_whole_run_fails(self):
        for name in ("plain/tests", "sanitized/tests"):
            os.makedirs(self.path(name))
        for name in ("plain", "sanitized"):
            self.program("exit 0", name, "weightfs")
        self.program(self.TEST, "plain", "tests", "x_test")
        argv = [
            sys.executable, run.__file__, "all", "--plain",
            self.path("plain"), "--sanitized",
            self.path("sanitized"), "x_test"
        ]
        done = self.run_script(*argv)
        self.assertIn("passed only when run once more: A.B (x_test, plain): this fails the run\n", done.stdout)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"), done.stderr)
        again = self.run_script(*argv)
        self.assertEqual((again.returncode, again.stdout.splitlines()[-1]), (0, "1 passed, 0 failed, 0 skipped"), again.stderr)


class LateTests(unittest.TestCase):
    def test_build_that_takes_too_long_is_ended(self):
        builds = run.BackgroundBuilds()
        builds.start("slow", ["sleep", "1000"])
        self.assertEqual(builds.wait("slow", 2), "the build takes too long")
        self.assertIsNotNone(builds.process.poll())

    def test_late_jobs_are_skipped_if_their_tests_ran_with_another_build(self):
        late = run.Run(run.Report(2))
        late.report.begun -= 101
        result, _ = late.timed(run.jobs.Job("x_test, sanitized", None, "x_test", until=100))
        self.assertEqual((result.passed, result.failed, result.skipped), (0, 0, 1))
        self.assertIn("these tests ran with another build", result.output)
        result, _ = late.timed(run.jobs.Job("x_test, plain", lambda: run.Result(1, 0, 0), "x_test"))
        self.assertEqual(result.passed, 1)


class Packed(ScriptTestCase):
    def test_program_for_arm64_is_skipped_without_its_packages(self):
        os.mkdir(self.path("plain"))
        self.program("exit 0", "plain", "weightfs")
        self.program("exit 0", "bin", "dpkg-query")
        # The build has the lowest priority.
        done = self.run_script(sys.executable, run.__file__, "all", "--plain", self.path("plain"), "--sanitized", self.path("none"),
                               "--build", "--portable", self.path("portable"), "arm64", limit_s=10 * LIMIT_S)
        self.assertIn("skipped: the arm64 program is not built: build_portable: packages for arm64 are missing: ", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 0 failed, 1 skipped", done.stderr)

    def test_builds_that_are_packed_are_those_that_are_named(self):
        for names, kinds in (([], ["portable", "arm64"]), (["arm64", "x"], ["arm64"]), (["x"], [])):
            args = argparse.Namespace(portable="p", names=names)
            self.assertEqual(list(run.packed_builds(args)), kinds)
        self.assertEqual(run.packed_builds(argparse.Namespace(portable=None, names=[])), {})


class Benchmark(unittest.TestCase):
    def test_parts_are_listed_without_a_program(self):
        done = subprocess.run([sys.executable, os.path.join(os.path.dirname(HERE), "bench", "run"), "--help"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("startup", done.stdout)


if __name__ == "__main__":
    unittest.main()
