"""The start of a mount: refused arguments, failures, and the cleanup after them."""
import errno
import re
import resource

from mounting import (LIMIT_S, MountTestCase, TestCase, UsersTestCase, as_nobody, has_ended, is_mounted, is_sanitized, os,
                      processes_of, pwd, run, shutil, signal, subprocess, unittest, until, WEIGHTFS)


def states_of(pid):
    """The states of a process's threads."""
    states = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            states.add(re.search(r"^State:\t(\w)", file.read(), re.M)[1])
    return states


class Names(TestCase):
    def test_control_characters_in_names_are_escaped(self):
        wild = self.path("a\x1b[31m\n")
        os.mkdir(wild)
        for argv in (["umount", wild], ["mount", wild, self.path("mnt")], ["mount", self.sample(), os.path.join(wild, "b", "c")],
                     ["service", "show", wild], ["mount", f"--foreground={wild}", "a", "b"], ["info", wild]):
            done = run(*argv)
            self.assertNotEqual(done.returncode, 0, argv)
            self.assertNotIn("\x1b", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Help(TestCase):
    def test_help_command_equals_help_option(self):
        for help_command, option in ((["help"], ["--help"]), (["help", "mount"], ["mount",
                                                                                  "--help"]), (["help", "cache",
                                                                                                "rm"], ["cache", "rm", "--help"])):
            self.assertEqual(run(*help_command).stdout, run(*option).stdout)

    def test_mount_helper_prints_usage(self):
        helper = self.path("mount.weightfs")
        os.symlink(WEIGHTFS, helper)
        for word, expected in (("--help", "Usage: mount.weightfs SOURCE DIR"), ("-h", "Usage: "),
                               ("--version", run("--version").stdout), ("-V", "")):
            done = subprocess.run([helper, word], capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(expected, done.stdout)


class Sources(MountTestCase):
    def test_mount_point_that_hides_the_source_is_refused(self):
        os.makedirs(self.path("shelf", "models"))
        self.sample("shelf/models/model.safetensors")
        os.symlink(self.path("shelf", "models"), self.path("link"))
        for source, point in (("shelf/models", "shelf/models"), ("shelf/models/model.safetensors", "shelf"),
                              ("link", "shelf/models"), ("shelf/models", "link")):
            done = run("mount", self.path(source), self.path(point))
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn("would hide its source", done.stderr)
            self.assertFalse(is_mounted(self.path(point)))

    def test_non_empty_mount_point_gets_a_warning(self):
        self.write("mnt/notes.txt", b"")
        done = run("mount", self.sample(), self.path("mnt"))
        self.addCleanup(self.force_unmount, self.path("mnt"))
        self.assertEqual((done.returncode, done.stderr),
                         (0, f"weightfs: {self.path('mnt')}: directory not empty; the mount hides its content\n"))
        self.unmount(self.path("mnt"))
        self.assertEqual(os.listdir(self.path("mnt")), ["notes.txt"])

    def test_several_sources_are_listed_in_proc_mounts(self):
        point = self.mount(self.sample("a.safetensors"), self.sample("b.safetensors"), self.sample("c.safetensors"))
        with open("/proc/self/mountinfo") as file:
            line, = [line for line in file if f" {point} " in line]
        self.assertEqual(line.split(" - ")[1].split()[1], f"{self.path('a.safetensors')}\\040and\\0402\\040more")


class CallerDescriptors(MountTestCase):
    def test_descriptors_of_the_caller_are_closed(self):
        ours, theirs = os.pipe()
        with open(ours, "rb") as reader:
            self.mount(self.sample(), pass_fds=(theirs,))
            os.close(theirs)
            self.assertEqual(reader.read(), b"", "the server has the other end open")

    def test_killed_command_leaves_no_mount(self):
        source, point = self.sample(), self.path("mnt")
        for _ in range(100):
            command = subprocess.Popen([WEIGHTFS, "mount", source, point], stderr=subprocess.DEVNULL)
            server = None
            while server is None and command.poll() is None:
                with open(f"/proc/{command.pid}/task/{command.pid}/children") as file:
                    server = next(map(int, file.read().split()), None)
            if server is not None:
                os.kill(server, signal.SIGSTOP)
                until(lambda: has_ended(server) or states_of(server) <= {"T", "t"}, "it does not stop")
            # The mount must not be accessed: its server hangs.
            in_time = server is not None and not is_mounted(point)
            command.kill()
            command.wait()
            if server is not None and not has_ended(server):
                os.kill(server, signal.SIGCONT)
            if not in_time and is_mounted(point):
                self.force_unmount(point)
            until(lambda: not processes_of(self.tmp), lambda: f"still running: {processes_of(self.tmp)}")
            self.assertFalse(os.path.lexists(point))
            if in_time:
                return
        self.fail("the server was always faster")


class NoFreeDescriptors(MountTestCase):
    @unittest.skipIf(is_sanitized(), "sanitizers need additional descriptors")
    def test_no_free_descriptor_leaves_no_mount(self):
        point = self.mount(self.sample())
        server = self.server(point)
        resource.prlimit(server, resource.RLIMIT_NOFILE, (3, 3))
        os.kill(server, signal.SIGTERM)
        until(lambda: has_ended(server), "it does not end")
        self.assertFalse(is_mounted(point))
        self.assertFalse(os.path.lexists(point))


@unittest.skipUnless(os.geteuid() == 0, "only root enters a mount namespace")
class Helper(MountTestCase):
    def test_helper_mounts_in_the_given_namespace(self):
        self.need_mount_namespace()
        other = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", "1000"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        until(lambda: os.readlink(f"/proc/{other.pid}/exe").endswith("/sleep"), "it does not start")
        helper, point = self.path("mount.weightfs"), self.path("mnt")
        os.symlink(WEIGHTFS, helper)
        done = subprocess.run([helper, self.sample(), point, "-N", f"/proc/{other.pid}/ns/mnt", "-o", "ro"], capture_output=True,
                              text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(is_mounted(point))
        with open(f"/proc/{other.pid}/mountinfo") as file:
            self.assertIn(f" {point} ", file.read())
        subprocess.run(["nsenter", f"--mount=/proc/{other.pid}/ns/mnt", WEIGHTFS, "umount", point], check=True)
        done = subprocess.run([helper, self.sample(), point, "-N", "/proc/none/ns/mnt"], capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (1, "weightfs: -N /proc/none/ns/mnt: No such file or directory\n"))


class Users(UsersTestCase):
    def home(self, user):
        os.mkdir(self.path("home"))
        os.chown(self.path("home"), user.pw_uid, user.pw_gid)
        point = self.path("home", "mnt")
        self.addCleanup(self.force_unmount, point)
        return point

    def test_no_free_thread_leaves_no_mount(self):
        user = pwd.getpwnam("games")
        point = self.home(user)
        # The program, its broker, and fusermount3 or one more thread.
        done = subprocess.run([self.binary, "mount", "-f", self.source, point], user=user.pw_uid, group=user.pw_gid,
                              extra_groups=[], text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (3, 3)),
                              capture_output=True, timeout=LIMIT_S, env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0",
                                                                             WEIGHTFS_CACHE=self.path("home", "cache")))
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("cannot start a thread", done.stderr)
        self.assertFalse(is_mounted(point))
        self.assertFalse(os.path.exists(point))

    def test_unreadable_model_is_listed_and_reports_an_error(self):
        point = self.home(pwd.getpwnam("nobody"))
        os.makedirs(self.path("shelf"))
        for name in ("closed.safetensors", "notes.txt", "open.safetensors"):
            shutil.copy(self.source, self.path("shelf", name))
        os.chmod(self.path("shelf", "closed.safetensors"), 0o600)
        self.write("shelf/notes.txt", b"")
        os.chmod(self.path("shelf", "notes.txt"), 0o600)
        listed = as_nobody(self.binary, "ls", self.path("shelf"))
        self.assertEqual((listed.returncode, listed.stdout), (0, "closed.safetensors\nopen.safetensors\n"))
        checked = as_nobody(self.binary, "verify", self.path("shelf"))
        self.assertNotEqual(checked.returncode, 0)
        self.assertIn("closed.safetensors: Permission denied", checked.stderr)
        process = subprocess.Popen([self.binary, "mount", "-f", self.path("shelf"), point], user="nobody", group="nogroup",
                                   extra_groups=[], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until(lambda: is_mounted(point), "not mounted")
        self.assertEqual(as_nobody("ls", point).stdout, "closed.safetensors\nopen.safetensors\n")
        for _ in range(3):
            self.assertIn(os.strerror(errno.EIO), as_nobody("ls", f"{point}/closed.safetensors").stderr)
        self.assertEqual(as_nobody("ls", f"{point}/open.safetensors/tensors/bias").returncode, 0)
        process.send_signal(signal.SIGTERM)
        denied = [line for line in process.communicate(timeout=LIMIT_S)[1].splitlines() if "Permission denied" in line]
        self.assertEqual(len(denied), 1, denied)


if __name__ == "__main__":
    unittest.main()
