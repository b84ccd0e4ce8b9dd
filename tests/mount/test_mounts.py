"""weightfs mounts and umount: busy mounts, dead and hung servers, other users."""
import ctypes
import datetime
import json
import pwd
import re
import resource
import select
import sys
import threading
import time

from hung_files import HungFiles
from false_status_server import FalseStatusServer
from mounting import (LIMIT_S, NOBODY, WEIGHTFS, MountTestCase, UsersTestCase, has_ended, is_mounted, only_root_mounts, numbers,
                      on_terminal, os, run, shutil, signal, subprocess, unittest, until)

LIBC = ctypes.CDLL(None, use_errno=True)


def helpers_of(name):
    """The processes of the tested binary that run this command."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:2] == [WEIGHTFS.encode(), name.encode()] and not has_ended(pid):
            found.append(int(pid))
    return found


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += file.read().split()
    return found


class Case(MountTestCase):
    def of(self, point, listed=None):
        """The entry of one mount in the output of `weightfs mounts`."""
        listed = listed if listed is not None else json.loads(run("mounts", "--json").stdout)
        found, = [each for each in listed if each["mountpoint"] == point]
        return found

    def kill(self, point):
        server = self.server(point)
        os.kill(server, signal.SIGKILL)
        until(lambda: has_ended(server), "the server does not end")

    def bare_mount(self, name, kind, user=0):
        """A FUSE mount served by this process, which never replies; returns its mount point, and the descriptor that keeps it
        alive."""
        if os.geteuid() != 0:
            self.skipTest("only root can mount other file systems")
        point = self.path(name)
        os.mkdir(point)
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id={user},group_id={user}"
        self.assertEqual(LIBC.mount(b"some\\source", point.encode(), kind.encode(), 0, options.encode()), 0,
                         os.strerror(ctypes.get_errno()))
        self.addCleanup(self.force_unmount, point)
        return point, device


class Listing(Case):
    def test_lists_mount_point_source_and_user(self):
        source = self.sample()
        before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        point = self.mount(source)
        mount = self.of(point)
        self.assertEqual((mount["source"], mount["pid"], mount["state"]), (source, self.server(point), "serving"))
        self.assertEqual((mount["user"], mount["fetched_bytes"]), (pwd.getpwuid(os.getuid()).pw_name, 0))
        self.assertGreaterEqual(datetime.datetime.fromisoformat(mount["since"].replace("Z", "+00:00")), before)
        self.assertEqual(self.read("mnt", "tensors", "encoder", "weight"), numbers("f", 60))
        self.assertGreaterEqual(self.of(point)["served_bytes"], mount["served_bytes"] + 240)

    def test_pipe_output_has_one_tab_separated_line_per_mount(self):
        point = self.mount(self.sample())
        head, *lines = run("mounts").stdout.splitlines()
        self.assertEqual(head.split("\t"), ["mounted_on", "source", "since", "server", "user", "served", "fetched", "state"])
        line, = [line for line in lines if line.startswith(point + "\t")]
        cells = line.split("\t")
        self.assertEqual(
            cells[:2] + cells[3:5] + cells[7:],
            [point, self.path("model.safetensors"),
             str(self.server(point)),
             pwd.getpwuid(os.geteuid()).pw_name, "serving"])
        self.assertRegex(cells[2], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(cells[5].isdigit() and cells[6] == "0", cells)

    def test_control_characters_in_names_are_escaped(self):
        point = self.mount(self.sample(), at="a\tb\nc\\d\x1b[31m \u009be")
        self.assertIn(self.path("a\\tb\\nc\\\\d\\x1b[31m \\xc2\\x9be") + "\t", run("mounts").stdout)
        shown = on_terminal("mounts")
        self.assertIn(self.path("a\\x09b\\x0ac\\d\\x1b[31m \\xc2\\x9be"), shown)
        for line in shown.splitlines():
            self.assertTrue(line.isprintable(), repr(line))
        self.assertEqual(self.of(point)["state"], "serving")

    def test_terminal_output_has_columns_and_colors(self):
        point = self.mount(self.sample())
        head, *lines = on_terminal("mounts").splitlines()
        line, = [line for line in lines if line.startswith(point + " ")]
        self.assertEqual(re.split("  +", head), ["mounted on", "source", "since", "server", "user", "served", "fetched", "state"])
        self.assertEqual(line.index("serving"), head.index("state"))
        self.assertRegex(line, r" \d{4}-\d\d-\d\d \d\d:\d\d ")
        coloured = on_terminal("mounts", NO_COLOR="")
        self.assertTrue(coloured.startswith("\x1b[1mmounted on\x1b[0m"))
        self.assertIn("\x1b[32mserving\x1b[0m", coloured)
        self.assertEqual(len([line for line in coloured.splitlines() if point in line]), 1)
        self.assertNotIn("\x1b", on_terminal("mounts", NO_COLOR="", TERM="dumb"))
        self.assertNotIn("\x1b", run("mounts", env=dict(os.environ, TERM="xterm")).stdout)

    def test_wide_cells_are_printed_below_their_row(self):
        source = self.sample("a model whose name is longer than it need be.safetensors")
        point = self.mount(source)
        head, *lines = on_terminal("mounts", columns=80).splitlines()
        self.assertRegex(head, r"^mounted on .* state$")
        self.assertNotIn("source", head, "which further columns fit depends on mounts of others")
        at = next(i for i, line in enumerate(lines) if line.startswith(point + " "))
        self.assertEqual(lines[at].rindex("serving"), head.index("state"))
        self.assertIn(f"  source: {source}", lines[at + 1:at + 3])
        for line in [head, *lines]:
            self.assertTrue(len(line) <= 80 or line.startswith("  "), line)
        wide = on_terminal("mounts", columns=1000).splitlines()
        self.assertIn("source", wide[0])
        self.assertFalse([line for line in wide if line.startswith(" ")])

    def test_hung_server_times_out(self):
        hung = self.mount(self.sample(), at="hung")
        well = self.mount(self.sample(), at="well")
        self.stop(hung)
        listed = json.loads(run("mounts", "--json").stdout)
        self.assertEqual((self.of(hung, listed)["state"], self.of(hung, listed)["pid"]), ("not responding", None))
        self.assertEqual(self.of(hung, listed)["source"], self.path("model.safetensors"), "the kernel knows it, too")
        self.assertEqual(self.of(well, listed)["state"], "serving")
        until(lambda: not helpers_of("mounts"), "a probing process is still running")

    def test_server_that_never_replies_times_out(self):
        point, device = self.bare_mount("never", "fuse.weightfs")
        self.assertEqual(self.of(point)["state"], "not responding")
        self.assertEqual(self.of(point)["source"], "some\\source")
        until(lambda: not helpers_of("mounts"), "a probing process is still running")
        os.close(device)
        self.assertEqual(self.of(point)["state"], "dead")

    def test_dead_server_is_reported(self):
        point = self.mount(self.sample())
        self.kill(point)
        mount = self.of(point)
        self.assertEqual((mount["state"], mount["pid"], mount["since"], mount["served_bytes"]), ("dead", None, None, None))
        self.assertIn("\x1b[31mdead\x1b[0m", on_terminal("mounts", NO_COLOR=""))

    def test_named_mounts_are_listed_and_must_serve(self):
        points = [self.mount(self.sample(), at=f"mnt{i}") for i in range(3)]
        done = run("mounts", points[0], os.path.relpath(points[1]))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line.split("\t")[0] for line in done.stdout.splitlines()], ["mounted_on", *points[:2]])
        self.stop(points[0])
        self.kill(points[1])
        for point, state in zip(points, ("not responding", "dead", "serving")):
            done = run("mounts", point)
            self.assertEqual((done.returncode, done.stdout.strip().split("\t")[-1]), (6 if state != "serving" else 0, state))
        done = run("mounts", self.path(), self.path("absent"))
        self.assertEqual((done.returncode, done.stdout), (6, ""))
        self.assertEqual(done.stderr, f"weightfs: {self.path()}: weightfs is not mounted there\n"
                         f"weightfs: {self.path('absent')}: No such file or directory\n")

    def test_all_mounts_are_probed_with_few_descriptors(self):
        points = [self.mount(self.sample(), at=f"mnt{i}") for i in range(9)]
        done = subprocess.run(["sh", "-c", 'ulimit -n 10 && exec "$0" mounts --json', WEIGHTFS], capture_output=True, text=True,
                              timeout=LIMIT_S)
        listed = json.loads(done.stdout)
        self.assertEqual([self.of(point, listed)["state"] for point in points], ["serving"] * 9)

    def test_pid_of_another_namespace_is_not_shown(self):
        self.need_mount_namespace()
        point = self.path("mnt")
        server = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", WEIGHTFS, "mount", "-f",
                                   self.sample(), point], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(self.force_unmount, point)
        until(lambda: os.path.ismount(point), "it does not mount")
        self.assertEqual(self.server(point), 1)
        self.assertEqual((self.of(point)["state"], self.of(point)["pid"]), ("serving", None))
        self.unmount(point)
        server.wait(LIMIT_S)

    @only_root_mounts
    def test_covered_mount_is_not_probed(self):
        point = self.mount(self.sample())
        subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
        self.addCleanup(subprocess.run, ["umount", point], check=True)
        self.assertEqual(self.of(point)["state"], "covered")


@unittest.skipUnless(os.getuid() == 0, "only root can mount as another user")
class UntrustedServers(Case):
    """Mounts with the type fuse.weightfs whose servers report false status."""

    def mount_with_false_status(self, pid, status):
        point, device = self.bare_mount("lie", "fuse.weightfs", user=NOBODY.pw_uid)
        self.addCleanup(FalseStatusServer(device, NOBODY.pw_uid, pid, status).thread.join)
        self.addCleanup(self.force_unmount, point)
        return point

    def test_forged_pid_of_another_process_is_ignored(self):
        stranger = os.getpid()
        point = self.mount_with_false_status(b"%d" % stranger, json.dumps({"pid": stranger, "served_bytes": 3}).encode())
        mount = self.of(point)
        self.assertEqual((mount["state"], mount["served_bytes"], mount["pid"]), ("serving", 3, None))

    def test_endless_status_is_truncated(self):
        point = self.mount_with_false_status(b"9" * 31, None)
        mount = self.of(point)
        self.assertEqual((mount["state"], mount["pid"], mount["source"]), ("serving", None, "some\\source"))

    def test_invalid_status_fields_are_ignored(self):
        for number, status in enumerate(
            (b"", b"[", b"[" * 100000, b'{"pid": -1, "since": 5, "source": {}, "served_bytes": 1e9, "bytes_fetched": []}',
             b'{"since": "9999999-12-31T00:00:00Z", "served_bytes": -1, "bytes_fetched": 99999999999999999999}',
             json.dumps({"source": "x" * 5000, "since": "2026-01-01T00:00:00.5"}).encode())):
            point = self.mount_with_false_status(b"nonsense", status)
            mount = self.of(point)
            self.assertEqual(
                (mount["state"], mount["pid"], mount["since"], mount["served_bytes"], mount["fetched_bytes"], mount["source"]),
                ("serving", None, None, None, None, "some\\source"), status[:80])
            self.force_unmount(point)
            os.rmdir(point)


class Unmounting(Case):
    def refused(self, *argv, **kwargs):
        done = run("umount", *argv, **kwargs)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def hold(self, code, point):
        """A process that runs this code, and waits."""
        process = subprocess.Popen(
            [sys.executable, "-c", f"import mmap, os, sys; {code}; print(flush=True); sys.stdin.read()", point],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end():
            process.communicate()
        self.addCleanup(end)
        process.stdout.readline()
        return process

    def test_several_mounts_are_unmounted(self):
        points = [self.mount(self.sample(), at=f"mnt{i}") for i in range(3)]
        servers = [self.server(point) for point in points]
        done = run("umount", *points)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(any(map(is_mounted, points)))
        self.assertTrue(all(map(has_ended, servers)))
        self.assertFalse(any(map(os.path.exists, points)))

    def test_failed_unmount_does_not_stop_the_others(self):
        point = self.mount(self.sample())
        done = run("umount", self.path("absent"), point, self.tmp)
        self.assertEqual(done.returncode, 6)
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        self.assertFalse(is_mounted(point))

    def test_short_access_does_not_make_unmount_fail(self):
        source, over = self.sample(), threading.Event()

        def look():
            while not over.is_set():
                run("mounts")

        looker = threading.Thread(target=look)
        looker.start()
        self.addCleanup(looker.join)
        self.addCleanup(over.set)
        for _ in range(30):
            self.unmount(self.mount(source))

    def test_busy_mount_lists_its_users(self):
        point = self.mount(self.sample())
        others = "" if os.geteuid() == 0 else re.escape(" (processes of other users not shown)")
        for code, what in (("os.chdir(sys.argv[1])", "working directory"), ("os.chdir(sys.argv[1] + '/tensors')",
                                                                            "working directory"),
                           ("f = open(sys.argv[1] + '/tensors/bias')", "tensors/bias"), ("d = os.open(sys.argv[1], os.O_RDONLY)",
                                                                                         "the mount's root"),
                           ("d = os.open(sys.argv[1] + '/tensors/bias', 0); m = mmap.mmap(d, 0, prot=1); os.close(d)",
                            "tensors/bias")):
            holder = self.hold(code, point)
            message = self.refused(point)
            self.assertRegex(
                message,
                rf"{point}: busy: in use by python3[.\d]* \(pid {holder.pid}, {what}\){others}; `weightfs umount --lazy {point}`")
            self.assertTrue(is_mounted(point))
            holder.communicate()
        self.unmount(point)

    def test_working_directory_is_found_among_many_open_files(self):
        point = self.mount(self.sample())
        each = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 20_000)
        for _ in range(240_000 // each):
            self.hold(
                f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({each}, {each})); [os.dup(0) for _ in range({each - 100})]",
                "/")
        holder = self.hold("os.chdir(sys.argv[1])", point)
        self.assertIn(f"(pid {holder.pid}, working directory)", self.refused(point))

    def test_users_of_a_hung_mount_are_listed(self):
        point = self.mount(self.sample())
        holder = self.hold("f = open(sys.argv[1] + '/tensors/bias')", point)
        self.stop(point)
        self.assertIn(f"(pid {holder.pid}, tensors/bias)", self.refused(point))
        holder.kill()
        holder.wait()
        # A `weightfs mounts` of another process may be waiting for this mount.
        until(lambda: not run("umount", point).stderr, "the mount is still busy")
        self.assertFalse(is_mounted(point))

    def test_control_characters_in_process_names_are_escaped(self):
        point = self.mount(self.sample())
        holder = self.hold("open('/proc/self/comm', 'w').write('\\x1b[31m\\n'); os.chdir(sys.argv[1])", point)
        message = self.refused(point)
        self.assertIn(str(holder.pid), message)
        self.assertTrue(message.rstrip("\n").isprintable(), repr(message))

    def test_lazy_unmount_keeps_open_files_readable(self):
        point = self.mount(self.sample())
        server = self.server(point)
        with open(f"{point}/tensors/bias", "rb") as file:
            done = run("umount", "--lazy", point)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertFalse(is_mounted(point))
            self.assertEqual(file.read(), numbers("i", 4))
            self.assertFalse(has_ended(server))
        until(lambda: has_ended(server), "the server does not end")

    def test_detached_mount_does_not_unmount_its_successor(self):
        for end in ("SIGTERM", "idle"):
            process, point = self.foreground("--idle-timeout", "1" if end == "idle" else "0", self.sample())
            holder = self.hold("os.chdir(sys.argv[1])", point)
            self.assertEqual(run("umount", "--lazy", point).stderr, "")
            since = self.mount(self.sample())
            server = self.server(since)
            if end == "SIGTERM":
                process.terminate()
                self.assertEqual(process.wait(LIMIT_S), 0)
            else:
                # Enough time for several idle timeouts.
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(2.5)
            self.assertTrue(is_mounted(since), end)
            self.assertEqual(self.server(since), server)
            holder.communicate()
            process.wait(LIMIT_S)
            self.unmount(since)

    def test_mount_below_a_hung_file_system_does_not_block_others(self):
        self.need_mount_namespace()
        files = HungFiles(self)
        below, well = [self.mount(self.sample(), at=name) for name in (files.folder, "well")]
        self.addCleanup(files.end)
        files.hangs = True
        end, inherited = os.pipe()
        self.assertIn(f"{below}: path not responding", self.refused(below, pass_fds=[inherited]))
        os.close(inherited)
        self.assertTrue(select.select([end], [], [], LIMIT_S)[0], "the waiting helper still has descriptors of its caller")
        os.close(end)
        # In a new mount namespace, without concurrent mounts of other processes.
        script = r"""
            set -e
            sed -n 's/^[^/]*[^ ]* \([^ ]*\) .* - fuse.weightfs .*/\1/p' /proc/self/mountinfo | grep -v -e "^$1$" -e "^$2$" | while read -r point; do umount -l "$(printf %b "$point")"; done
            "$0" umount --all --lazy
        """
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, WEIGHTFS, below, well],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (6, f"{well}: unmounted\n"))
        self.assertEqual(done.stderr, f"weightfs: {below}: path not responding\n")

    def test_server_of_a_mount_below_a_hung_file_system_exits(self):
        files = HungFiles(self)
        server, point = self.foreground("--idle-timeout", "1", "--log-level", "info", self.sample(), at=files.folder)
        self.addCleanup(files.end)
        self.assertIn("mounted", server.stderr.readline())  # before that, it examines the path
        in_use = os.open(point, os.O_RDONLY)
        files.hangs = True
        os.close(in_use)
        until(lambda: children_of(server.pid), "the idle mount is not unmounted")
        server.terminate()
        self.assertEqual(server.wait(LIMIT_S), 0)

    @unittest.skipUnless(shutil.which("strace"), "strace is missing, which delays a system call")
    @only_root_mounts
    def test_rename_during_unmount_does_not_unmount_another_mount(self):
        os.mkdir(self.path("his"))
        os.makedirs(self.path("others", "mnt"))
        self.mount(self.sample(), at="his/mnt")
        self.addCleanup(self.force_unmount, self.path("hers", "mnt"))
        others = self.path("others", "mnt")
        subprocess.run(["mount", "-t", "tmpfs", "none", others], check=True)
        self.addCleanup(lambda: is_mounted(others) and subprocess.run(["umount", others], check=True))
        umount = subprocess.Popen([
            "strace", "-D", "-f", "-o", "/dev/null", "-e", "trace=umount2", "-e", "inject=umount2:delay_enter=3000000", WEIGHTFS,
            "umount",
            self.path("his", "mnt")
        ], env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))

        def is_about_to_unmount(pid):
            try:
                with open(f"/proc/{pid}/syscall") as file:
                    return file.read().split()[0] in ("166", "39")  # on x86-64, on arm64
            except (FileNotFoundError, ProcessLookupError):  # a child that lists the mounts
                return False

        until(lambda: any(map(is_about_to_unmount, children_of(umount.pid))), "it does not unmount")
        os.rename(self.path("his"), self.path("hers"))
        os.symlink("others", self.path("his"))
        self.assertEqual(umount.wait(LIMIT_S), 0)
        self.assertTrue(is_mounted(others))
        self.assertFalse(is_mounted(self.path("hers", "mnt")))

    @only_root_mounts
    def test_mount_below_it_is_reported(self):
        point = self.mount(self.sample())
        subprocess.run(["mount", "-t", "tmpfs", "none", f"{point}/tensors"], check=True)
        self.assertIn(f"busy: tmpfs is mounted below it, at {point}/tensors", self.refused(point))
        subprocess.run(["umount", f"{point}/tensors"], check=True)
        self.unmount(point)

    @only_root_mounts
    def test_covering_mount_is_not_unmounted(self):
        point = self.mount(self.sample())
        subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
        self.assertIn("tmpfs is mounted over weightfs there", self.refused(point))
        subprocess.run(["umount", point], check=True)
        self.unmount(point)

    def test_works_from_inside_and_by_a_relative_path(self):
        point = self.mount(self.sample())
        done = run("umount", ".", cwd=point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.mount(self.sample())
        done = run("umount", "../cache/../mnt", cwd=self.write("cache/x", b"") and self.path("cache"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(is_mounted(point))

    def test_path_inside_a_mount_is_refused(self):
        point = self.mount(self.sample())
        self.assertIn("weightfs is not mounted there", self.refused(f"{point}/tensors"))

    def test_all_and_paths_exclude_each_other(self):
        for argv in ([], ["--all", self.path("mnt")]):
            done = run("umount", *argv)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_all_unmounts_every_mount(self):
        self.need_mount_namespace()
        # In a new mount namespace, without concurrent mounts of other processes.
        script = r"""
            set -e
            tac /proc/self/mountinfo | sed -n 's/^[^/]*[^ ]* \([^ ]*\) .* - fuse.weightfs .*/\1/p' | while read -r point; do umount -l "$(printf %b "$point")"; done
            "$0" umount --all
            for i in $(seq 20); do "$0" mount "$1" "$2/m$i"; done
            "$0" mount "$1" "$2/dead"
            kill -9 $("$0" mounts | sed -n "s/.*dead\t[^\t]*\t[^\t]*\t\([0-9]*\)\t.*/\1/p")
            mkdir "$2/outer"
            "$0" mount "$2/many" "$2/outer"
            "$0" mount "$1" "$2/outer/model.safetensors"
            cd "$2/m7"
            "$0" umount --all >"$2/output" || echo "status $?"
            cd /
            "$0" mounts | sed 1d | cut -f1
            "$0" umount -a
            "$0" mounts | sed 1d
        """
        os.mkdir(self.path("many"))
        self.sample("many/model.safetensors")
        self.sample("many/other.safetensors")
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, WEIGHTFS,
             self.sample(), self.tmp], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"status 6\n{self.path('m7')}\n{self.path('m7')}: unmounted\n")
        unmounted = [f"m{i}" for i in range(1, 21) if i != 7] + ["dead", "outer", "outer/model.safetensors"]
        self.assertEqual(sorted(self.read("output").decode().splitlines()),
                         sorted(f"{self.path(name)}: unmounted" for name in unmounted))
        hidden, line = done.stderr.splitlines()
        self.assertIn("outer/model.safetensors: directory not empty; the mount hides its content", hidden)
        self.assertRegex(line, rf"{self.path('m7')}: busy: in use by sh \(pid \d+, working directory\)")
        self.assertFalse([name for name in os.listdir(self.tmp) if name.startswith("m") and name[1:].isdigit()])


class DeadMounts(Case):
    def test_dead_mount_of_another_file_system_is_not_removed(self):
        point, device = self.bare_mount("other", "fuse.other")
        os.close(device)
        done = run("mount", self.sample(), point)
        self.assertEqual(done.returncode, 6)
        self.assertIn("not connected", done.stderr)
        self.assertTrue(is_mounted(point))

    def test_hung_mount_is_not_removed_as_dead(self):
        point = self.mount(self.sample())
        self.stop(point)
        done = run("mount", self.sample(), point)
        self.assertEqual((done.returncode, done.stderr), (6, f"weightfs: {point}: weightfs is already mounted there\n"))


class OtherUsers(UsersTestCase, Case):
    def home(self, user):
        home = self.path(user.pw_name)
        os.mkdir(home)
        os.chown(home, user.pw_uid, user.pw_gid)
        return os.path.join(home, "mnt")

    def run_as(self, user, *argv, **kwargs):
        return subprocess.run([self.binary, *argv], capture_output=True, text=True, timeout=LIMIT_S, user=user.pw_uid,
                              group=user.pw_gid, extra_groups=[], **kwargs)

    def mount_as(self, user):
        point = self.home(user)
        self.addCleanup(self.force_unmount, point)
        done = self.run_as(user, "mount", self.source, point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return point

    def test_root_sees_details_of_all_mounts_and_a_user_of_own_ones(self):
        point = self.mount_as(NOBODY)
        roots = self.mount(self.source)
        seen = self.of(point)
        self.assertEqual((seen["user"], seen["state"], seen["source"]), ("nobody", "serving", self.source))
        self.assertEqual(os.stat(f"/proc/{seen['pid']}").st_uid, NOBODY.pw_uid)
        listed = json.loads(self.run_as(NOBODY, "mounts", "--json").stdout)
        self.assertEqual(self.of(point, listed), dict(seen, served_bytes=self.of(point, listed)["served_bytes"]))
        hidden = self.of(roots, listed)
        self.assertEqual((hidden["user"], hidden["state"], hidden["source"], hidden["pid"]), ("root", "private", self.source, None))

    def test_all_unmounts_only_mounts_of_the_user(self):
        daemon = pwd.getpwnam("daemon")
        point = self.mount_as(daemon)
        roots = self.mount(self.source)
        mount_of_nobody = self.mount_as(NOBODY)
        done = self.run_as(daemon, "umount", "--all")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{point}: unmounted\n", ""))
        self.assertFalse(os.path.exists(point))
        self.assertTrue(is_mounted(roots) and is_mounted(mount_of_nobody))
        done = self.run_as(NOBODY, "umount", roots)
        self.assertEqual((done.returncode, done.stderr),
                         (6, f"weightfs: {roots}: mounted by another user; only that user and root can unmount it\n"))

    def test_unreachable_mount_has_a_reason(self):
        daemon = pwd.getpwnam("daemon")
        point = self.mount_as(daemon)
        os.chmod(os.path.dirname(point), 0)
        done = self.run_as(daemon, "umount", "--all")
        self.assertEqual((done.returncode, done.stderr), (6, f"weightfs: {point}: Permission denied\n"))
        os.chmod(os.path.dirname(point), 0o755)
        self.assertEqual(self.run_as(daemon, "umount", "--all").stderr, "")

    def test_incomplete_list_of_users_is_reported(self):
        point = self.mount_as(NOBODY)
        holder = subprocess.Popen(["sh", "-c", 'cd "$0" && exec sleep 1000', point], user=NOBODY.pw_uid, group=NOBODY.pw_gid,
                                  extra_groups=[])
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        until(lambda: os.readlink(f"/proc/{holder.pid}/exe").endswith("/sleep"), "it does not start")
        done = self.run_as(NOBODY, "umount", point)
        self.assertEqual(done.returncode, 6)
        self.assertIn(f"busy: in use by sleep (pid {holder.pid}, working directory) (processes of other users not shown)",
                      done.stderr)
        done = self.run_as(NOBODY, "umount", "-l", point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(is_mounted(point))

    def test_user_mounts_over_own_dead_mount(self):
        point = self.mount_as(NOBODY)
        server = self.of(point)["pid"]
        os.kill(server, signal.SIGKILL)
        until(lambda: has_ended(server), "the server does not end")
        done = self.run_as(NOBODY, "mount", self.source, point)
        self.assertEqual((done.returncode, done.stderr), (0, f"weightfs: {point}: removed a mount whose server died\n"))
        self.assertEqual(self.run_as(NOBODY, "umount", point).stderr, "")
        self.assertFalse(is_mounted(point))


if __name__ == "__main__":
    unittest.main()
