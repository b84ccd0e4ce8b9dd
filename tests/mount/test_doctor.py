"""weightfs doctor on complete and incomplete machines, for root and for a user."""
import json
import re

from mounting import (LIMIT_S, NOBODY, WEIGHTFS, MountTestCase, TestCase, allow_fuse_for_all, has_ended, on_terminal, os,
                      run, shutil, signal, subprocess, unittest, until)
import partial_downloads

ROOT_ONLY = unittest.skipUnless(os.getuid() == 0, "only root can become another user")


class Case(TestCase):
    def examine(self, *argv, status=0, **kwargs):
        """The checks by name. Of duplicate names the last is used."""
        done = subprocess.run([*argv, WEIGHTFS, "doctor", "--json"], capture_output=True, text=True, timeout=LIMIT_S, **kwargs)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        return self.by_name(done.stdout)

    def by_name(self, text):
        checks = json.loads(text)
        for check in checks:
            self.assertEqual(list(check), ["check", "verdict", "found", "advice"])
            self.assertIn(check["verdict"], ("ok", "warning", "failure"))
            if check["verdict"] == "failure":
                self.assertTrue(check["advice"], "the failure can be repaired")
        return {check["check"]: check for check in checks}

    def verdict(self, checks, name):
        return checks[name]["verdict"]


class WorkingMachine(Case, MountTestCase):
    def test_machine_that_can_mount_has_no_failure(self):
        checks = self.examine()
        for name in ("/dev/fuse", "fuse module", "fusermount3", "/etc/mtab", "allow_other", "mount helper", "cache", "cache space",
                     "partial downloads", "certificates", "open files", "mounts", "kernel"):
            self.assertIn(name, checks)
        self.assertEqual(self.verdict(checks, "/dev/fuse"), "ok")
        self.assertEqual(checks["kernel"]["found"], f"Linux {os.uname().release}")

    def test_versions_of_the_libraries_are_listed(self):
        found = self.examine()["libraries"]["found"]
        self.assertRegex(found, r"^curl \d+\.\d+\.\d+, expat .*, libarchive \d+\.\d+\.\d+, .*, openssl 3\.\d+\.\d+, ")
        self.assertEqual([each for each in found.split(", ") if not re.fullmatch(r"[a-z-]+ \d+(\.\d+){1,3}", each)], [])

    def test_passthrough_needs_linux_6_9(self):
        release = tuple(int(number) for number in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
        expected = "available in mounts by root" if release >= (6, 9) else "not available; needs Linux 6.9"
        self.assertRegex(self.examine()["passthrough"]["found"], "^" + expected)

    def test_output_is_a_table_on_a_terminal_and_lines_in_a_pipe(self):
        shown = on_terminal("doctor").splitlines()
        self.assertEqual(shown[0].split()[:3], ["check", "verdict", "found"])
        column = shown[0].index("verdict")
        self.assertTrue(all(line[column:].startswith(("ok ", "warning ")) for line in shown[1:]), shown)
        coloured = on_terminal("doctor", NO_COLOR="")
        self.assertTrue(coloured.startswith("\x1b[1mcheck\x1b[0m"))
        self.assertIn("\x1b[32mok\x1b[0m", coloured)
        head, *lines = run("doctor").stdout.splitlines()
        self.assertEqual(head, "check\tverdict\tfound\twhat_to_do")
        self.assertEqual({line.count("\t") for line in lines}, {3})

        def without_mounts(names):  # of other tests, which come and go
            return [name for name in names if not name.startswith(("tiers of ", "requests of "))]
        self.assertEqual(without_mounts(line.split("\t")[0] for line in lines), without_mounts(self.examine()))

    def test_dead_and_hung_mounts_are_reported(self):
        dead, hung = self.mount(self.sample(), at="dead"), self.mount(self.sample(), at="hung")
        server = self.server(dead)
        os.kill(server, signal.SIGKILL)
        until(lambda: has_ended(server), "the server does not end")
        self.stop(hung)
        checks = json.loads(run("doctor", "--json").stdout)
        found = {check["found"].partition(": ")[0]: check for check in checks if check["check"] == "mounts"}
        self.assertIn(dead, found["server process died"]["found"])
        self.assertIn("weightfs umount", found["server process died"]["advice"])
        self.assertIn(hung, found["server not responding"]["found"])
        self.assertEqual({check["verdict"] for check in found.values()}, {"warning"})

    # semantics 17.9
    def test_tiers_of_running_mounts_are_reported(self):
        passing, off = self.mount(self.sample(), at="passing"), self.mount("--passthrough=off", self.sample("b.safetensors"),
                                                                           at="off")
        for point in (passing, off):
            with open(os.path.join(point, "tensors", "bias"), "rb") as file:
                file.read()
        checks = self.examine()
        self.assertRegex(checks[f"tiers of {off}"]["found"],
                         r"^no file passes through: .+; opened so far: 0 by passthrough, [1-9]\d* by the server$")
        self.assertRegex(checks[f"tiers of {passing}"]["found"], r"; opened so far: \d+ by passthrough, [1-9]\d* by the server$")
        self.assertEqual(self.verdict(checks, f"tiers of {off}"), "ok")

    def test_cache_in_a_mount_is_a_failure(self):
        point = self.mount(self.sample())
        checks = self.examine(status=1, env=dict(os.environ, WEIGHTFS_CACHE=f"{point}/cache"))
        self.assertEqual(self.verdict(checks, "cache"), "failure")
        self.assertIn("in a weightfs mount", checks["cache"]["found"])


class Cache(Case):
    def test_missing_cache_is_ok(self):
        checks = self.examine()
        self.assertEqual(self.verdict(checks, "cache"), "ok")
        self.assertTrue(checks["cache"]["found"].startswith(self.path("cache")))
        self.assertFalse(os.path.exists(self.path("cache")), "doctor created the cache")

    def test_cache_writable_by_others_is_not_used(self):
        os.makedirs(self.path("cache", "v1"))
        os.chmod(self.path("cache", "v1"), 0o777)
        checks = self.examine()
        self.assertEqual(self.verdict(checks, "cache"), "warning")
        self.assertIn("cannot be used", checks["cache"]["found"])

    def test_partial_downloads_are_reported(self):
        for name in ("blobs", "index", "making"):
            os.makedirs(self.path("cache", "v1", name))
        for directory, _, _ in os.walk(self.path("cache")):
            os.chmod(directory, 0o700)
        partial_downloads.write(self.path("cache"), bytes(10_000), present=0)
        checks = self.examine()
        self.assertRegex(checks["partial downloads"]["found"], r"^1, [48]\.0 KiB$")
        self.assertIn("weightfs cache gc", checks["partial downloads"]["advice"])

    @unittest.skipUnless(os.getuid() == 0, "only root can mount a tmpfs")
    def test_cache_in_memory_is_a_warning(self):
        os.mkdir(self.path("memory"))
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("memory")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("memory")], check=True)
        checks = self.examine(env=dict(os.environ, WEIGHTFS_CACHE=self.path("memory", "cache")))
        self.assertEqual(self.verdict(checks, "cache"), "warning")
        self.assertIn("in memory", checks["cache"]["found"])


@ROOT_ONLY
class MissingRequirements(Case):
    """Missing requirements, for root and for the user nobody, which has more requirements."""

    def setUp(self):
        super().setUp()
        os.chmod(self.tmp, 0o755)
        self.binary = self.path("weightfs")
        shutil.copy(WEIGHTFS, self.binary)

    def in_namespace(self, script, **kwargs):
        """Runs in a mount namespace, which the script changes; then as the given user."""
        self.need_mount_namespace()
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, self.binary, self.tmp],
                              capture_output=True, text=True, timeout=LIMIT_S, **kwargs)
        self.assertEqual(done.stderr, "")
        return done.returncode, self.by_name(done.stdout)

    def as_nobody(self, env, status):
        done = subprocess.run([self.binary, "doctor", "--json"], capture_output=True, text=True, timeout=LIMIT_S,
                              user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[], cwd="/", env=env)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done.stdout)
        return self.by_name(done.stdout)

    def allow_all_users(self):
        allow_fuse_for_all(self)

    def test_missing_dev_fuse_is_a_failure_for_root(self):
        status, checks = self.in_namespace('mount -t tmpfs none /dev && exec "$0" doctor --json')
        self.assertEqual((status, self.verdict(checks, "/dev/fuse")), (1, "failure"))
        self.assertIn("No such file", checks["/dev/fuse"]["found"])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_unreadable_dev_fuse_is_a_failure_for_a_user(self):
        status, checks = self.in_namespace('mount -t tmpfs -o mode=755 none /dev && mknod -m 600 /dev/fuse c 10 229 && '
                                           'exec setpriv --reuid nobody --regid nogroup --clear-groups "$0" doctor --json')
        self.assertEqual((status, self.verdict(checks, "/dev/fuse")), (1, "failure"))
        self.assertIn("Permission denied", checks["/dev/fuse"]["found"])
        self.assertIn("chmod 666", checks["/dev/fuse"]["advice"])

    @unittest.skipUnless(os.path.exists("/dev/fuse") and shutil.which("fusermount3"), "no /dev/fuse or no fusermount3 here")
    def test_complete_machine_has_no_failure_for_a_user(self):
        self.allow_all_users()
        checks = self.as_nobody({"PATH": os.environ["PATH"], "WEIGHTFS_CACHE": "/tmp/absent"}, 0)
        self.assertEqual((self.verdict(checks, "/dev/fuse"), self.verdict(checks, "fusermount3")), ("ok", "ok"))
        self.assertRegex(checks["fusermount3"]["found"], "/fusermount3$")

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_missing_fusermount3_is_a_failure_for_a_user(self):
        self.allow_all_users()
        os.mkdir(self.path("bin"))
        checks = self.as_nobody({"PATH": self.path("bin")}, 1)
        self.assertEqual((self.verdict(checks, "fusermount3"), checks["fusermount3"]["advice"]), ("failure", "install fuse3"))
        self.write("bin/fusermount3", b"#!/bin/sh\n")
        os.chmod(self.path("bin", "fusermount3"), 0o755)
        checks = self.as_nobody({"PATH": self.path("bin")}, 1)
        self.assertEqual(checks["fusermount3"]["found"], self.path("bin", "fusermount3") + ", not setuid root")

        os.rename(self.path("bin", "fusermount3"), self.path("bin", "fusermount"))
        checks = self.as_nobody({"PATH": self.path("bin")}, 1)
        self.assertEqual(checks["fusermount3"]["found"], self.path("bin", "fusermount") + ", not setuid root", "that of libfuse 2")

    @unittest.skipUnless(os.path.exists("/etc/mtab"), "no /etc/mtab here")
    def test_missing_mtab_is_a_failure_for_a_user(self):
        without = 'mount -t tmpfs none /mnt && cp -a /etc/. /mnt && rm /mnt/mtab && mount --bind /mnt /etc && exec '
        status, checks = self.in_namespace(without + '"$0" doctor --json')
        self.assertEqual((status, self.verdict(checks, "/etc/mtab")), (0 if os.path.exists("/dev/fuse") else 1, "ok"))
        status, checks = self.in_namespace(without + 'setpriv --reuid nobody --regid nogroup --clear-groups "$0" doctor --json')
        self.assertEqual((status, self.verdict(checks, "/etc/mtab")), (1, "failure"))
        self.assertIn("ln -s /proc/self/mounts /etc/mtab", checks["/etc/mtab"]["advice"])

    @unittest.skipUnless(os.path.exists("/dev/fuse") and shutil.which("fusermount3"), "no /dev/fuse or no fusermount3 here")
    def test_missing_home_is_a_warning_for_a_user(self):
        self.allow_all_users()
        checks = self.as_nobody({"PATH": os.environ["PATH"]}, 0)
        self.assertEqual(self.verdict(checks, "cache"), "warning")
        self.assertIn("WEIGHTFS_CACHE, XDG_CACHE_HOME and HOME", checks["cache"]["found"])
        checks = self.as_nobody({"PATH": os.environ["PATH"], "HOME": "/nonexistent"}, 0)
        self.assertIn("/nonexistent/.cache/weightfs cannot be created", checks["cache"]["found"])

    def test_missing_certificates_and_low_file_limit_are_warnings(self):
        status, checks = self.in_namespace('ulimit -n 100 && mount -t tmpfs none /etc/ssl/certs && exec "$0" doctor --json')
        self.assertEqual(status, 0 if os.path.exists("/dev/fuse") else 1)
        self.assertEqual(self.verdict(checks, "certificates"), "warning")
        self.assertEqual((self.verdict(checks, "open files"), checks["open files"]["found"][:11]), ("warning", "at most 100"))


if __name__ == "__main__":
    unittest.main()
