"""Integration into the system: mount(8), fstab, ordinary users, status files and logs, many mounts at once."""
import contextlib
import itertools
import json
import mmap
import re
import socket
import threading
import time

from mounting import (LIMIT_S, NOBODY, WEIGHTFS, MountTestCase, Tensor, as_nobody, descriptors_of, eventually, has_ended,
                      is_sanitized, numbers, only_root_sees, os, run, shutil, signal, subprocess, unittest, until)


def can_overlay():
    """Whether a test can overlay files over /usr/sbin in a private mount namespace."""
    script = "d=$(mktemp -d) && mount -t tmpfs none $d && mkdir $d/u $d/w && mount -t overlay -o lowerdir=/usr/sbin,upperdir=$d/u,workdir=$d/w o /usr/sbin"
    done = subprocess.run(
        ["unshare", "-m", "-p", "-f", "--kill-child", "sh", "-c", f"{script}; e=$?; umount -l $d; rmdir $d; exit $e"],
        capture_output=True)
    return done.returncode == 0


@unittest.skipUnless(os.getuid() == 0, "only root may mount with mount(8)")
class Mount8(MountTestCase):
    """Each script runs in new namespaces: its mounts and servers end with it, and /sbin has the helpers of an installation."""

    @classmethod
    def setUpClass(cls):
        if not can_overlay():
            raise unittest.SkipTest("no overlay file system or no namespaces here: mount(8) finds no helper")

    def script(self, script, fstab="", helper=("mount.weightfs", "mount.fuse.weightfs"), **variables):
        os.makedirs(self.path("sbin"), exist_ok=True)
        os.makedirs(self.path("at"), exist_ok=True)
        os.chmod(self.tmp, 0o755)
        binary = self.path("weightfs")
        if not os.path.exists(binary):
            shutil.copy(WEIGHTFS, binary)
        for name in helper:
            if not os.path.islink(self.path("sbin", name)):
                os.symlink(binary, self.path("sbin", name))
        self.write("fstab", fstab.encode())
        self.write("fuse.conf", b"user_allow_other\n")
        prepare = f"""set -eu
            mount -t tmpfs none {self.tmp}/at && mkdir {self.tmp}/at/u {self.tmp}/at/w && cp -a {self.tmp}/sbin/. {self.tmp}/at/u
            mount -t overlay -o lowerdir=/usr/sbin,upperdir={self.tmp}/at/u,workdir={self.tmp}/at/w overlay /usr/sbin
            mount --bind {self.tmp}/fstab /etc/fstab; mount --bind {self.tmp}/fuse.conf /etc/fuse.conf
            mount -t tmpfs none /run; mkdir /run/mount
            as_nobody() {{ setpriv --reuid=nobody --regid=nogroup --clear-groups -- "$@"; }}
            cd {self.tmp}; . ./script"""
        self.write("script", script.encode())
        return subprocess.run(["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "bash", "-c", prepare],
                              capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, TMP=self.tmp, **variables))

    def run_script(self, script, *args, **kwargs):
        done = self.script(script, *args, **kwargs)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_mount_type_weightfs_works(self):
        self.sample()
        os.mkdir(self.path("mnt"))
        shown = self.run_script("""mount -t weightfs model.safetensors mnt -o allow_other,cache_size=1G,rw,suid
                            findmnt -n -o FSTYPE,SOURCE,OPTIONS mnt; cmp mnt/tensors/bias mnt/tensors/bias; umount mnt; ls -A mnt"""
                                )
        kind, source, options = shown.split()
        self.assertEqual((kind, source), ("fuse.weightfs", self.path("model.safetensors")))
        for option in ("ro", "nosuid", "nodev", "allow_other"):
            self.assertIn(option, options.split(","))

    def test_mount_type_fuse_weightfs_works(self):
        self.sample()
        os.mkdir(self.path("mnt"))
        self.assertIn("fuse.weightfs",
                      self.run_script("mount -t fuse.weightfs model.safetensors mnt; findmnt -n -o FSTYPE mnt; umount mnt"))

    @unittest.skipUnless(os.path.exists("/sbin/mount.fuse3"), "no mount.fuse3 here")
    def test_mount_fuse_helper_finds_weightfs_on_path(self):
        self.sample()
        os.mkdir(self.path("mnt"))
        self.assertIn(
            "fuse.weightfs",
            self.run_script(
                "mount -t fuse.weightfs $TMP/model.safetensors mnt -o allow_other; findmnt -n -o FSTYPE mnt; umount mnt",
                helper=("weightfs", )))

    def test_fstab_line_with_spaces_and_commas_works(self):
        os.mkdir(self.path("my models, all"))
        os.mkdir(self.path("a, b"))
        self.sample("my models, all/one, two.safetensors")
        self.sample("my models, all/three.safetensors")
        os.mkdir(self.path("my mount"))

        def escaped(*names):
            return self.path(*names).replace(" ", "\\040")

        line = f'{escaped("my models, all")} {escaped("my mount")} weightfs noauto,nofail,x-test=1,all,blob_dir="{escaped("a, b")}",log_level=error 0 0\n'
        shown = self.run_script("mount 'my mount'; ls 'my mount'; findmnt -n -o SOURCE 'my mount'; umount 'my mount'", fstab=line)
        self.assertEqual(shown, f"one, two.safetensors\nthree.safetensors\n{self.path('my models, all')}\n")

    def test_mount_all_mounts_fstab_entries(self):
        self.sample()
        os.mkdir(self.path("mnt"))
        self.run_script("mount -a; mountpoint -q mnt; mount -a; umount -a -t fuse.weightfs; ! mountpoint -q mnt",
                        fstab=f"{self.tmp}/model.safetensors {self.tmp}/mnt weightfs defaults,_netdev 0 0\n")

    def prepare_mount_by_nobody(self):
        """A model, and a mount point of the user nobody."""
        if not os.path.exists("/etc/mtab"):
            self.skipTest("fusermount3 needs /etc/mtab, which a booted Debian has")
        self.addCleanup(os.chmod, "/dev/fuse", os.stat("/dev/fuse").st_mode & 0o777)
        os.chmod("/dev/fuse", 0o666)
        self.sample()
        os.mkdir(self.path("mnt"))
        os.chown(self.path("mnt"), NOBODY.pw_uid, NOBODY.pw_gid)

    def test_user_mounts_and_unmounts_permitted_fstab_entry(self):
        self.prepare_mount_by_nobody()
        shown = self.run_script("""export WEIGHTFS_CACHE=$TMP/none
                            as_nobody mount mnt; as_nobody ls mnt/tensors; ls mnt 2>/dev/null || echo root is kept out
                            findmnt -n -o OPTIONS mnt; as_nobody umount mnt; ! mountpoint -q mnt""",
                                fstab=f"{self.tmp}/model.safetensors {self.tmp}/mnt weightfs noauto,user 0 0\n")
        self.assertIn("bias\n", shown)
        self.assertIn("root is kept out\n", shown)
        self.assertIn(f"user_id={NOBODY.pw_uid}", shown)

    def test_allow_other_grants_access_to_all_users(self):
        self.sample()
        os.mkdir(self.path("mnt"))
        shown = self.run_script(
            """mount -t weightfs model.safetensors mnt; as_nobody ls mnt 2>/dev/null || echo kept out; umount mnt
                            mount -t weightfs model.safetensors mnt -o allow_other; as_nobody cat mnt/tensors/bias | wc -c; umount mnt
                            mount -t weightfs model.safetensors mnt -o allow_other,umask=007; as_nobody ls mnt 2>/dev/null || echo kept out"""
        )
        self.assertEqual(shown, "kept out\n16\nkept out\n")

    def test_ordinary_user_needs_fuse_conf_for_allow_other(self):
        self.prepare_mount_by_nobody()
        shown = self.run_script("""export WEIGHTFS_CACHE=$TMP/none
                            as_daemon() { setpriv --reuid=daemon --regid=daemon --clear-groups -- "$@"; }
                            as_nobody ./weightfs mount model.safetensors mnt
                            as_daemon cat mnt/tensors/bias 2>/dev/null || echo kept out
                            as_nobody ./weightfs umount mnt
                            as_nobody ./weightfs mount -o allow_other model.safetensors mnt
                            as_daemon cat mnt/tensors/bias | wc -c
                            as_nobody ./weightfs umount mnt
                            echo "# nothing" >/etc/fuse.conf
                            as_nobody ./weightfs mount --allow-other model.safetensors mnt 2>&1 || echo "status $?" """)
        out, let_in, refused, status = shown.splitlines()
        self.assertEqual((out, let_in, status), ("kept out", "16", "status 6"))
        self.assertIn("user_allow_other", refused)

    def test_invalid_mount_options_have_a_reason(self):
        self.sample()
        os.mkdir(self.path("mnt"))
        for options, message in (("cache_siez=1G", "did you mean cache_size?"), ("remount", "unmount it and mount it again"),
                                 ("cache_size=big", '"big" is not a size'), ("cache_size", "needs a value"), ("offline=1",
                                                                                                              "takes no value")):
            done = self.script(f"mount -t weightfs model.safetensors mnt -o {options}")
            self.assertNotEqual(done.returncode, 0, options)
            self.assertIn(message, done.stderr)
        done = self.script("mount -t weightfs absent.safetensors mnt")
        self.assertEqual(done.returncode, 32)
        self.assertIn("No such file", done.stderr)
        self.run_script("mount -s -t weightfs model.safetensors mnt -o frobnicate; umount mnt")
        for options in ("frobnicate,umask=nonsense", "remount"):
            self.assertNotEqual(self.script(f"mount.weightfs model.safetensors mnt -s -o {options}").returncode, 0, options)
        self.assertEqual(
            self.run_script("mount -s -t weightfs model.safetensors mnt -o frobnicate,umask=0337; stat -c %a mnt; umount mnt"),
            "440\n")
        self.run_script("mount -f -t weightfs model.safetensors mnt; ! mountpoint -q mnt")


class Ownership(MountTestCase):
    @unittest.skipUnless(os.geteuid() == 0, "only root may enter the directories of another owner")
    def test_owner_group_and_mask_are_applied(self):
        mnt = self.mount("--uid", "nobody", "--gid", str(NOBODY.pw_gid), "-o", "umask=0227", self.sample())
        shown = os.stat(f"{mnt}/tensors/bias")
        self.assertEqual((shown.st_uid, shown.st_gid, shown.st_mode & 0o7777), (NOBODY.pw_uid, NOBODY.pw_gid, 0o440))
        self.assertEqual(os.stat(f"{mnt}/tensors").st_mode & 0o7777, 0o550)

    def test_invalid_owner_options_are_refused(self):
        source = self.sample()
        for argv, message in ((["--uid", "nosuchuser"], '"nosuchuser" is not a user'), (["--gid=-1"], "is not a group"), ([
                "--uid", "4294967295"
        ], "is not a user"), (["--gid", "4294967295"], "is not a group"), (["--umask", "9"], "is not an octal mask"), ([
                "--umask", "1777"
        ], "is not an octal mask"), (["--idle-timeout", "soon"], "is not a number of seconds"),
                              (["--log-level", "loud"], "is not a log level"), (["-o", "uid"], "needs a value: uid=USER")):
            done = run("mount", *argv, source, self.path("mnt"))
            self.assertEqual(done.returncode, 2, argv)
            self.assertIn(message, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)


class MountOptionWords(MountTestCase):
    def test_long_options_and_o_have_the_same_names(self):
        help_text = run("mount", "--help").stdout
        words = re.search(r"separated\s+by\s+commas:\s+(.*?)\n(?=\S|\n)", help_text, re.DOTALL)[1]
        words = re.split(r",\s+", words.strip())
        self.assertGreater(len(words), 15)
        for word in words:
            name, _, value = word.partition("=")
            self.assertRegex(help_text, rf"(?m)^  (?:-\w,)?--{name.replace('_', '-')}{' ' + re.escape(value) if value else ''}\s")

    def test_quotes_and_backslashes_protect_commas(self):
        os.makedirs(self.path("a,b"))
        source = self.sample()
        for written in (f'blob_dir="{self.path("a,b")}",all', f'blob_dir={self.path("a")}\\,b',
                        f'all,blob-dir="{self.path("a,b")}"'):
            self.unmount(self.mount("-o", written, source))
        self.assertEqual(run("mount", "-o", f"blob_dir={self.path('a,b')}", source, self.path("mnt")).returncode, 2)


class IdleTimeout(MountTestCase):
    def test_idle_mount_is_unmounted(self):
        process, mnt = self.foreground("--idle-timeout", "1", self.sample())
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertFalse(os.path.exists(mnt))

    def test_mappings_and_working_directories_count_as_use(self):
        process, mnt = self.foreground("--idle-timeout", "1", self.sample())
        # A mapped file stays open without a descriptor.
        with open(f"{mnt}/tensors/bias", "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        with mapped:
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(2.5)  # the idle time passes
            self.assertEqual(mapped[:], numbers("i", 4))
            sleeper = subprocess.Popen(["sleep", "60"], cwd=mnt)
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        with self.assertRaises(subprocess.TimeoutExpired, msg="the working directory of a process keeps it"):
            process.wait(2.5)
        sleeper.kill()
        sleeper.wait()
        self.assertEqual(process.wait(LIMIT_S), 0)

    def test_reading_the_status_does_not_count_as_use(self):
        process, mnt = self.foreground("--idle-timeout", "1", self.sample())
        names = (f"absent{i}" for i in itertools.count())  # the kernel looks up each name once

        def has_ended():
            with contextlib.suppress(OSError):  # at its end
                os.stat(f"{mnt}/.weightfs/stats.json")
                os.listdir(f"{mnt}/.weightfs")
                os.stat(f"{mnt}/.weightfs/{next(names)}")
            return process.poll() is not None
        self.assertTrue(eventually(has_ended))
        self.assertEqual(process.poll(), 0)

    def test_idle_mount_stays_without_the_option(self):
        process, _ = self.foreground("-o", "idle_timeout=0", self.sample())
        self.assertFalse(eventually(lambda: process.poll() is not None, 1))


class StatusFiles(MountTestCase):
    """The files below .weightfs/."""

    def own(self, mnt, name):
        with open(f"{mnt}/.weightfs/{name}") as file:
            return file.read()

    def counted(self, mnt, enough):
        """Waits until this much has been counted: a request is counted shortly after its reply."""
        until(lambda: enough(json.loads(self.own(mnt, "stats.json"))["operations"]),
              lambda: f"counters: {self.own(mnt, 'stats.json')}")

    def test_status_directory_is_not_listed(self):
        mnt = self.mount(self.sample())
        self.assertNotIn(".weightfs", os.listdir(mnt))
        self.assertEqual(sorted(os.listdir(f"{mnt}/.weightfs")), ["log", "metrics", "stats.json", "status.json", "summary.json"])

    def test_status_describes_the_mount(self):
        source = self.sample()
        before = time.time()
        mnt = self.mount(source)
        status = json.loads(self.own(mnt, "status.json"))
        self.assertEqual((status["source"], status["sources"], status["mountpoint"]), (source, [source], mnt))
        self.assertEqual(status["pid"], self.server(mnt))
        self.assertEqual(run("--version").stdout, f"weightfs {status['version']}\n")
        since = time.mktime(time.strptime(status["since"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
        self.assertLess(abs(since - before), LIMIT_S)

    def test_statistics_count_requests_and_bytes(self):
        mnt = self.mount(self.sample())
        with open(f"{mnt}/tensors/encoder/weight", "rb") as file:
            file.read()
            stats = json.loads(self.own(mnt, "stats.json"))
            self.assertEqual((stats["served_bytes"], stats["open_files"]), (240, 1))
        for name in ("absent", "missing"):
            self.assertFalse(os.path.exists(f"{mnt}/{name}"))
        until(lambda: not json.loads(self.own(mnt, "stats.json"))["open_files"], "a file stays open")
        self.counted(mnt, lambda operations: operations["lookup"]["requests"] >= 4 and operations["open"]["requests"] >= 2)
        operations = json.loads(self.own(mnt, "stats.json"))["operations"]
        for name, operation in operations.items():
            latency = operation["latency_us"]
            self.assertEqual(operation["errors"], 0, "a missing name does not count as an error")
            self.assertLessEqual(latency["p50"], latency["p90"])
            self.assertLessEqual(latency["p99"], latency["max"])
            self.assertEqual(latency["max"] > 0, operation["requests"] > 0, name)

    def test_failed_read_is_an_error_and_one_log_line(self):
        source = self.sample()
        mnt = self.mount(source)
        os.truncate(source, 100)
        for _ in range(3):
            with self.assertRaises(OSError):
                self.read("mnt", "tensors", "bias")
        self.counted(mnt, lambda operations: operations["open"]["errors"] + operations["read"]["errors"] >= 3)
        lines = self.own(mnt, "log").splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ info: mounted ")
        self.assertRegex(lines[1], r"Z warning: .*model\.safetensors")

    def test_metrics_follow_the_prometheus_format(self):
        mnt = self.mount(self.sample('we"ird\\.safetensors'), at="mnt")
        self.read("mnt", "tensors", "bias")
        self.counted(mnt, lambda operations: operations["open"]["requests"] >= 1)
        seen, types = {}, {}
        for line in self.own(mnt, "metrics").splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertNotIn(name, types, "one TYPE for each name")
                types[name] = kind
            elif not line.startswith("# HELP "):
                found = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\} ([-+0-9.e]+)', line)
                self.assertIsNotNone(found, line)
                self.assertNotIn((found[1], found[2]), seen, "one value for each series")
                seen[found[1], found[2]] = float(found[3])
                base = re.sub(r"_(bucket|sum|count)$", "", found[1])
                self.assertIn(found[1] if found[1] in types else base, types)
        point = f'mountpoint="{mnt}"'
        self.assertEqual(seen["weightfs_read_bytes_total", point], 16)
        self.assertGreaterEqual(seen["weightfs_request_duration_seconds_count", point + ',operation="open"'], 1)
        buckets = [value for (name, labels), value in seen.items() if name.endswith("_bucket") and 'operation="read"' in labels]
        self.assertEqual(buckets, sorted(buckets), "buckets are cumulative")
        self.assertIn('we\\"ird\\\\.safetensors', next(labels for name, labels in seen if name == "weightfs_info"))

    def test_sigusr1_logs_statistics(self):
        process, mnt = self.foreground("-o", "log_level=error", self.sample())
        self.read("mnt", "tensors", "bias")
        process.send_signal(signal.SIGUSR1)
        line = process.stderr.readline()
        self.assertIn("statistics since", line)
        self.assertIn("16 B read", line)
        until(lambda: "statistics since" in self.own(mnt, "log"), "the line is not in the log")
        self.assertIsNone(process.poll())

    def test_log_level_filters_lines(self):
        for level, mounted, opened in (("warning", False, False), ("info", True, False), ("debug", True, True)):
            mnt = self.mount("--log-level", level, self.sample())
            self.read("mnt", "tensors", "bias")
            log = self.own(mnt, "log")
            self.assertEqual(("mounted " in log, "debug: open tensors/bias" in log), (mounted, opened), level)
            self.unmount(mnt)

    def test_journal_lines_have_a_priority(self):
        log = open(self.path("log"), "w+")
        self.addCleanup(log.close)
        status = os.fstat(log.fileno())
        source = self.sample()
        process = subprocess.Popen([WEIGHTFS, "mount", "-f", source, self.path("mnt")], stderr=log,
                                   env=dict(os.environ, JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}"))
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        until(lambda: b"mounted" in self.read("log") or process.poll() is not None, "it does not mount")
        os.truncate(source, 100)
        with self.assertRaises(OSError):
            self.read("mnt", "tensors", "bias")
        process.terminate()
        self.assertEqual(process.wait(LIMIT_S), 0)
        lines = self.read("log").decode().splitlines()
        self.assertRegex(lines[0], "^<6>mounted ")
        self.assertRegex(lines[1], "^<4>.*model.safetensors")

    def test_newlines_in_names_do_not_start_a_log_line(self):
        absent = self.path("a\n<0>forged \x1b[31m")
        with open(self.path("log"), "w+") as log:
            status = os.fstat(log.fileno())
            done = subprocess.run([WEIGHTFS, "mount", "-f", absent, self.path("mnt")], stderr=log,
                                  env=dict(os.environ, JOURNAL_STREAM=f"{status.st_dev}:{status.st_ino}"), timeout=LIMIT_S)
        self.assertEqual(done.returncode, 3)
        line, = self.read("log").decode().splitlines()
        self.assertTrue(line.startswith("<3>" + self.path("a\\x0a<0>forged \\x1b[31m")), line)


@unittest.skipUnless(os.getuid() == 0, "only root can replace /dev/log")
class SystemLog(MountTestCase):
    def test_background_server_logs_each_event_once_to_syslog(self):
        self.need_mount_namespace()
        self.sample()
        log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(log.close)
        log.bind(self.path("log.sock"))
        log.settimeout(LIMIT_S)
        script = """set -e; cd "$TMP"; mkdir dev mnt; mount -t tmpfs none dev
                 cp -a /dev/null /dev/zero /dev/urandom /dev/fuse dev; ln -s "$TMP/log.sock" dev/log; mount --move dev /dev
                 "$WEIGHTFS" mount model.safetensors mnt
                 truncate -s 100 model.safetensors
                 for i in 1 2 3; do cat mnt/tensors/bias 2>/dev/null && exit 1; done
                 "$WEIGHTFS" umount mnt"""
        done = subprocess.run(["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "bash", "-c", script],
                              capture_output=True, text=True, timeout=LIMIT_S, env=dict(os.environ, TMP=self.tmp,
                                                                                        WEIGHTFS=WEIGHTFS))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [log.recv(4096).decode() for _ in range(3)]
        # Facility daemon (3 << 3), with the priorities info, warning, info.
        for line, start in zip(
                lines, ("<30>.* weightfs\\[\\d+\\]: mounted ", "<28>.* weightfs\\[.*model.safetensors", "<30>.*: unmounted ")):
            self.assertRegex(line, start)
        log.setblocking(False)
        with self.assertRaises(BlockingIOError, msg="one line for all three reads"):
            log.recv(4096)


class Shutdown(MountTestCase):
    def test_repeated_signals_do_not_prevent_cleanup(self):
        process, mnt = self.foreground(self.sample())
        end = time.monotonic() + LIMIT_S
        while process.poll() is None and time.monotonic() < end:
            process.terminate()
        self.assertEqual(process.poll(), 0)
        self.assertEqual(process.stderr.read(), "")
        self.assertFalse(os.path.exists(mnt))

    def reads_at(self, task):
        """Whether a thread is in pread64 (by its number on x86-64 and on arm64)."""
        try:
            with open(f"/proc/{task}/syscall") as file:
                return file.read().split()[0] in ("17", "67")
        except OSError:
            return False

    @only_root_sees
    def test_hung_source_does_not_prevent_shutdown(self):
        # Larger than the kernel's read-ahead of the header.
        self.sample(tensors=[Tensor("near", "int8", (16 << 20,), bytes(16 << 20)), Tensor("far", "int8", (16,), bytes(16))])
        below = self.mount(self.tmp, at="below")
        process, mnt = self.foreground(f"{below}/files/model.safetensors", at="mnt")
        hung = self.stop(below)
        reader = subprocess.Popen(["cat", f"{mnt}/tensors/far"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        until(lambda: any(map(self.reads_at, os.listdir(f"/proc/{process.pid}/task"))), "no read reached the hung file")
        process.terminate()
        self.assertIn("shutdown timed out", process.stderr.readline())
        until(lambda: not os.path.ismount(mnt), "it stays mounted")
        os.kill(hung, signal.SIGCONT)
        self.assertEqual(process.wait(LIMIT_S), 6)
        self.assertFalse(os.path.exists(mnt))


class ReplacedBinary(MountTestCase):
    def test_replaced_binary_does_not_break_a_mount(self):
        binary = self.path("weightfs")
        shutil.copy(WEIGHTFS, binary)
        source = self.sample()
        self.addCleanup(self.force_unmount, self.path("mnt"))
        subprocess.run([binary, "mount", source, self.path("mnt")], check=True)
        server = self.server(self.path("mnt"))
        # Like dpkg and cmake --install: a new file with the same name.
        shutil.copy(WEIGHTFS, binary + ".new")
        os.rename(binary + ".new", binary)
        self.assertTrue(os.readlink(f"/proc/{server}/exe").endswith("(deleted)"))
        self.assertEqual(self.read("mnt", "tensors", "encoder", "weight"), numbers("f", 60))
        second = self.mount(source, at="second")
        self.assertEqual(self.read("second", "tensors", "bias"), self.read("mnt", "tensors", "bias"))
        subprocess.run([binary, "umount", self.path("mnt")], check=True)
        self.assertTrue(has_ended(server))
        self.unmount(second)


class ManyMounts(MountTestCase):
    # Fewer under a sanitizer, because each takes half a second to end, and its memory is not measured.
    COUNT = 40 if is_sanitized() else 200
    PRIVATE_KB = 12 * 1024

    def private_kb(self, pid):
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))

    def test_two_hundred_mounts_are_small_and_end(self):
        source = self.sample()
        points = [self.path(f"mnt{i}") for i in range(self.COUNT)]
        for point in points:
            self.addCleanup(self.force_unmount, point)
        halves = [
            threading.Thread(target=lambda mine: [run("mount", source, p) for p in mine], args=(points[i::2], )) for i in range(2)
        ]
        for half in halves:
            half.start()
        for half in halves:
            half.join()
        self.assertEqual([p for p in points if not os.path.ismount(p)], [])
        servers = [self.server(p) for p in points]
        self.assertEqual(len(set(servers)), self.COUNT)
        for point in points:
            self.read(point, "tensors", "bias")
        if not is_sanitized():
            self.assertLess(max(map(self.private_kb, servers)), self.PRIVATE_KB)
        self.assertLess(max(map(descriptors_of, servers)), 16)
        done = run("umount", *points)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # umount waits for the servers, with a timeout.
        until(lambda: all(map(has_ended, servers)), "a server does not end")
        self.assertEqual([p for p in points if os.path.exists(p)], [], "created mount points are removed")

    def test_server_leaks_no_descriptors_or_threads(self):
        mnt = self.mount(self.sample())
        pid = self.server(mnt)

        self.read("mnt", "tensors", "bias")
        before = descriptors_of(pid)
        for _ in range(200):
            for name in ("tensors/bias", "metadata.json", ".weightfs/status.json", ".weightfs/metrics", "npy/bias.npy"):
                self.read("mnt", *name.split("/"))
        until(lambda: not json.loads(self.read("mnt", ".weightfs", "status.json"))["open_files"], "a file stays open")
        until(lambda: descriptors_of(pid) < before + 10, lambda: f"{before} descriptors became {descriptors_of(pid)}")
        until(lambda: len(os.listdir(f"/proc/{pid}/task")) < 8, "threads that are not needed do not end")


if __name__ == "__main__":
    unittest.main()
