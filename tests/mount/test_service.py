"""Services without systemd: the config, notifications, the passed mount, and the units of the generator."""
import ctypes
import glob
import json
import pwd
import socket
import time

from fetching import FAR, LinkTestCase
from mounting import (LIMIT_S, WEIGHTFS, MountTestCase, TestCase, halt, is_mounted, is_sanitized, only_root_mounts, numbers, os,
                      processes_of, run, shutil, signal, subprocess, unittest, until)
from scripted_server import Server, correct, stalls
from servers import Nginx, needs
from service_manager import ServiceManager

LIBC = ctypes.CDLL(None, use_errno=True)
BIAS = numbers("i", 4)
NOBODY = pwd.getpwnam("nobody")


class Configs(TestCase):
    def show(self, text):
        return run("service", "show", self.write("a.conf", text.encode()))

    def shown(self, text):
        done = self.show(text)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refused(self, text):
        done = self.show(text)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        line, = done.stderr.splitlines()
        start = f"weightfs: {self.path('a.conf')}:"
        self.assertTrue(line.startswith(start), line)
        return line[len(start):]

    def test_config_is_parsed(self):
        self.assertEqual(self.shown("# comment\n; another = one\n\nSOURCE=/models\nMOUNTPOINT=/srv//weights/\n"
                                    "OPTIONS=cache_size=20G,noexec\nAUTOMOUNT=yes\nAUTOMOUNT_IDLE=600\nSOURCE=ollama:llama3.2\n"),
                         {"service": "weightfs@a.service", "sources": ["/models", "ollama:llama3.2"], "mountpoint": "/srv/weights",
                          "options": "cache_size=20G,noexec", "automount": True, "automount_idle": 600})
        self.assertEqual(self.shown("SOURCE=/m\nMOUNTPOINT=/w"),
                         {"service": "weightfs@a.service", "sources": ["/m"], "mountpoint": "/w", "options": "", "automount": False,
                          "automount_idle": 0})

    def test_values_are_quoted_as_in_an_environment_file(self):
        for written, value in ((r"/a b  ", "/a b"), (r'"/a b  "', "/a b  "), (r"'/a\b'", r"/a\b"), (r"/a\ ", "/a "),
                               (r"/a\"b", '/a"b'), (r'"/a\"b\\c\n"', r'/a"b\c\n'), (r"/a'b c'd", "/ab cd"), ("/a\\\nb", "/ab"),
                               ("/a#b;c", "/a#b;c"), ("\t/ü \r", "/ü"), ("/a=b", "/a=b")):
            shown = self.shown(f" SOURCE = {written}\nMOUNTPOINT=/w\n")
            self.assertEqual(shown["sources"], [value], written)

    def test_errors_name_the_line(self):
        start = "SOURCE=/m\nMOUNTPOINT=/w\n"
        for text, place, message in ((start + "MOUNTPONT=/x\n", 3, 'unknown setting "MOUNTPONT"; did you mean MOUNTPOINT?'),
                                     (start + "# x\n\\\n", 4, "is not KEY=VALUE"),
                                     (start + "nonsense\n", 3, '"nonsense" is not KEY=VALUE'),
                                     (start + "MOUNTPOINT=/y\n", 3, "second MOUNTPOINT"),
                                     (start + "AUTOMOUNT=perhaps\n", 3, "yes or no"),
                                     (start + "AUTOMOUNT_IDLE=-1\n", 3, "a number of seconds"),
                                     (start + "SOURCE='x\n", 3, "the quote ' is not closed"),
                                     ("SOURCE=/a\\\nb\nSOURCE=models\n", 3, "is not an absolute path or a model name"),
                                     ("SOURCE=with:colon/model\n", 1, "is not an absolute path or a model name"),
                                     ("SOURCE=\n", 1, "is not an absolute path"),
                                     ("SOURCE=/m\n\nMOUNTPOINT=weights\n", 3, "is not an absolute path"),
                                     ("SOURCE=/m\nMOUNTPOINT=/\n", 2, "is not a permitted mount point"),
                                     ("SOURCE=/m\nMOUNTPOINT=/a/../b\n", 2, "is not a permitted mount point")):
            error = self.refused(text)
            self.assertTrue(error.startswith(f"{place}: "), (text, error))
            self.assertIn(message, error)
        self.assertIn("SOURCE= is missing", self.refused("MOUNTPOINT=/w\n"))
        self.assertIn("MOUNTPOINT= is missing", self.refused("SOURCE=/m\n"))
        self.assertIn("did you mean cache_size", self.refused(start + "OPTIONS=cache_siz=1G\n"))

    def test_control_characters_in_errors_are_escaped(self):
        for line in ("SOURCE=\x1b[31m", "MOUNTPOINT=\x1b[31m", "AUTOMOUNT=\x1b[31m", "AUTOMOUNT_IDLE=\x1b[31m", "\x1b[31m",
                     "\x1b[31m=x", "OPTIONS=\x1b[31m", "OPTIONS=uid=\x1b[31m", "OPTIONS=cache_size=\x1b[31m",
                     "OPTIONS=format=\x1b[31m"):
            done = self.show(f"SOURCE=/m\n{line}\nMOUNTPOINT=/w\n")
            self.assertEqual(done.returncode, 2, line)
            self.assertTrue(done.stderr.rstrip("\n").isprintable(), done.stderr)
            self.assertIn("\\x1b[31m", done.stderr)

    def test_system_directories_and_parents_of_the_source_are_refused(self):
        for point in ("/", "/proc", "/usr/", "/srv/./../etc", "/var"):
            self.assertIn("is not a permitted mount point", self.refused(f"SOURCE=/m\nMOUNTPOINT={point}\n"))
        for source, point in (("/srv/models", "/srv/models"), ("/srv/models/a.gguf", "/srv/models/"), ("/srv/a/../models/b/c",
                                                                                                       "/srv/models")):
            self.assertIn("would hide SOURCE=", self.refused(f"SOURCE=/m\nSOURCE={source}\nMOUNTPOINT={point}\n"))
        self.shown("SOURCE=/srv/models\nMOUNTPOINT=/srv/models-too\n")
        self.shown("SOURCE=/srv/models\nMOUNTPOINT=/srv/models/mounted\n")

    def test_lower_case_setting_gets_a_suggestion(self):
        self.assertIn("did you mean SOURCE", self.refused("Source=/m\n"))

    def test_invalid_config_files_are_refused(self):
        self.assertIn("limit 65536", self.refused("#" * 65537))
        self.assertIn("NUL", self.refused("SOURCE=/m\0\nMOUNTPOINT=/w\n"))
        done = run("service", "show", self.path("absent.conf"))
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))


class ServiceTestCase(MountTestCase):
    def setUp(self):
        super().setUp()
        self.manager = ServiceManager(self.path("notify"))
        self.addCleanup(self.manager.close)
        self.point = self.path("mnt")
        self.addCleanup(self.force_unmount, self.point)

    def config(self, **more):
        lines = {"SOURCE": self.sample(), "MOUNTPOINT": self.point, **more}
        return self.write("a.conf", "".join(f"{key}={value}\n" for key, value in lines.items()).encode())

    def environment(self, **more):
        return self.manager.environment(RUNTIME_DIRECTORY=self.path("run"), **more)

    def started(self, *argv, **kwargs):
        """Starts a server that ends with the test at the latest."""
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, **kwargs)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.manager.wait_for(lambda notification: "READY" in notification)
        return process

    def serve(self, config, **more):
        return self.started(WEIGHTFS, "service", "serve", config, env=self.environment(**more))

    def stop(self, process):
        """Ends a server, and returns its output."""
        process.send_signal(signal.SIGTERM)
        message = process.stderr.read()
        self.assertEqual(process.wait(LIMIT_S), 0, message)
        return message

    def reload(self, process):
        before = len(self.manager.notifications)
        process.send_signal(signal.SIGHUP)
        reloading = self.manager.wait_for(lambda notification: notification.get("RELOADING") == "1", before)
        self.assertGreater(int(self.manager.notifications[reloading]["MONOTONIC_USEC"]), 0)
        self.manager.wait_for(lambda notification: notification.get("READY") == "1", reloading)


class Notifications(ServiceTestCase):
    def test_server_notifies_ready_status_and_stopping(self):
        process = self.serve(self.config())
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        first = self.manager.wait_for(lambda notification: "READY" in notification)
        status = self.manager.notifications[first]["STATUS"]
        self.assertTrue(status.startswith(f"{self.path('model.safetensors')} at {self.point}: "), status)
        with open(f"{self.point}/tensors/bias", "rb"):
            self.manager.wait_for(lambda notification: "1 file open" in notification.get("STATUS", ""), first + 1)
        self.stop(process)
        self.manager.wait_for(lambda notification: notification.get("STOPPING") == "1")
        self.assertFalse(os.path.exists(self.point))

    @only_root_mounts
    def test_heartbeat_stops_when_the_mount_hangs(self):
        process = self.serve(self.config(OPTIONS="log_level=error"), WATCHDOG_USEC="300000")
        beat = self.manager.wait_for(lambda notification: notification.get("WATCHDOG") == "1")
        self.manager.wait_for(lambda notification: notification.get("WATCHDOG") == "1", beat + 1)
        # A thread that waits for the mount must not keep it open: when the other threads die, the mount ends, and then this thread.

        def without_the_mount():
            return [task for task in glob.glob(f"/proc/{process.pid}/task/*")
                    if not any(os.path.realpath(descriptor) == "/dev/fuse" for descriptor in glob.glob(f"{task}/fd/*"))]

        until(lambda: len(without_the_mount()) == 1,
              lambda: f"threads without the mount: {without_the_mount()}")  # not one that ends
        # A request to the mount fails while the server is still alive.
        subprocess.run(["mount", "-t", "tmpfs", "none", self.point], check=True)
        self.addCleanup(lambda: is_mounted(self.point) and subprocess.run(["umount", "-l", self.point], check=False))
        covered = len(self.manager.notifications)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self.reload(process)
        # One notification may already have been sent.
        self.assertLessEqual(sum("WATCHDOG" in notification for notification in self.manager.notifications[covered:]), 1)
        subprocess.run(["umount", self.point], check=True)
        self.manager.wait_for(lambda notification: notification.get("WATCHDOG") == "1", len(self.manager.notifications))
        self.stop(process)

    def test_long_names_do_not_prevent_readiness(self):
        source = "/".join(["\x01ü" * 80] * 10) + "/model.safetensors"  # escaped, it is twice as long
        os.makedirs(os.path.dirname(self.path(source)))
        source = self.sample(source)
        process = self.serve(self.config(SOURCE=source))
        status = self.manager.notifications[self.manager.wait_for(lambda notification: "READY" in notification)]["STATUS"]
        self.assertTrue(status.startswith(self.path("\\x01ü")), status)
        self.stop(process)

    def test_no_heartbeat_without_a_watchdog(self):
        process = self.serve(self.config())
        self.stop(process)
        self.assertFalse(any("WATCHDOG" in notification for notification in self.manager.notifications))

    def test_reload_reads_the_config_and_keeps_open_files(self):
        config = self.config(OPTIONS="log_level=warning")
        process = self.serve(config)
        with open(f"{self.point}/tensors/bias", "rb", buffering=0) as file:
            self.assertEqual(file.read(4), BIAS[:4])
            self.config(OPTIONS="log_level=info,noexec", SOURCE="/elsewhere")
            self.reload(process)
            self.assertEqual(file.read(), BIAS[4:])
        self.assertEqual(process.stderr.readline(), f"weightfs: reloaded {config}\n")
        self.assertEqual(process.stderr.readline(), f"weightfs: {config}: restart needed to apply: SOURCE, noexec\n")
        self.stop(process)

    def test_reload_of_an_invalid_config_changes_nothing(self):
        config = self.config()
        process = self.serve(config)
        self.write("a.conf", b"nonsense\n")
        self.reload(process)
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        self.assertIn(f"weightfs: not reloaded: {config}:1: ", self.stop(process))

    def test_reload_changes_the_idle_timeout(self):
        process = self.serve(self.config())
        self.config(OPTIONS="idle_timeout=1")
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertFalse(is_mounted(self.point))

    def test_server_starts_over_the_mount_of_a_killed_one(self):
        config = self.config()
        process = self.serve(config)
        process.kill()
        process.wait(LIMIT_S)
        self.assertTrue(is_mounted(self.point))
        self.manager.notifications.clear()
        process = self.serve(config)
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        self.stop(process)
        self.assertFalse(is_mounted(self.point))

    def test_invalid_config_is_a_one_line_error(self):
        for more, status, message in (({"SOURCE": "/absent"}, 3, "/absent"), ({"OPTIONS": "nonsense"}, 2, "unknown mount option"),
                                      ({"MOUNTPOINT": self.path("a.conf")}, 6, "not a directory")):
            done = subprocess.run([WEIGHTFS, "service", "serve", self.config(**more)], env=self.environment(), capture_output=True,
                                  text=True, timeout=LIMIT_S)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (status, 1), done.stderr)
            self.assertIn(message, done.stderr)
        self.assertFalse(any("READY" in notification for notification in self.manager.notifications))

    @unittest.skipUnless(os.geteuid() == 0, "needs root: only root can become another user")
    def test_unreadable_source_error_names_user_and_path(self):
        os.chmod(self.tmp, 0o755)
        os.makedirs(self.path("home", "shelf"))
        model = self.sample("home/shelf/model.safetensors")
        binary = shutil.copy(WEIGHTFS, self.path("weightfs"))
        for place, mode, source, what in (("home", 0o700, model, "enter"), ("home/shelf", 0o644, model, "enter"),
                                          ("home/shelf", 0o744, self.path("home/shelf"), "enter"),
                                          ("home/shelf", 0o711, self.path("home/shelf"), "read"),
                                          ("home/shelf/model.safetensors", 0o600, model, "read")):
            config = self.config(SOURCE=source)
            os.chmod(self.path(place), mode)
            done = subprocess.run([binary, "service", "serve", config], user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[],
                                  env=self.environment(), capture_output=True, text=True, timeout=LIMIT_S)
            os.chmod(self.path(place), 0o755)
            self.assertEqual(
                (done.returncode, done.stderr),
                (2, f"weightfs: {self.path(place)}: user nobody cannot {what} it; grant access by mode, group or ACL\n"))
        self.assertFalse(is_mounted(self.point))


@unittest.skipUnless(os.geteuid() == 0, "needs root: only root mounts")
class DownloadStatus(ServiceTestCase, LinkTestCase):
    def test_status_shows_download_progress(self):
        web = Server(self)
        carton = self.carton_of(web.serve("far", stalls(FAR, len(FAR) // 2), head=correct(FAR)))
        process = self.serve(self.config(SOURCE=carton, OPTIONS="allow_private_urls"))
        reader = subprocess.Popen(["cat", f"{self.point}/files/model/far"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        self.manager.wait_for(lambda notification: notification.get("STATUS", "").endswith("; fetching model/far, 50 %"))
        self.stop(process)


@needs("nginx")
@unittest.skipUnless(os.geteuid() == 0, "needs root: only root mounts")
class Urls(ServiceTestCase, LinkTestCase):
    def test_service_reads_a_model_at_a_url(self):
        with open(self.sample(), "rb") as file:
            url = Nginx(self).publish("model.safetensors", file.read())
        process = self.serve(self.config(SOURCE=url))
        with open(os.path.join(self.point, "tensors", "bias"), "rb") as file:
            self.assertEqual(file.read(), BIAS)
        self.stop(process)


class ServiceMountTestCase(ServiceTestCase):
    """One process mounts, another process serves."""

    def call(self, verb, config):
        return subprocess.run([WEIGHTFS, "service", verb, config], env=self.environment(), capture_output=True, text=True,
                              timeout=LIMIT_S)

    def attach(self, config):
        done = self.call("attach", config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(list(self.manager.stored), ["fuse"])

    def detach(self, config):
        done = self.call("detach", config)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(is_mounted(self.point))
        self.assertEqual(self.manager.stored, {})
        self.assertEqual(os.listdir(self.path("run")), [])

    def serve_stored(self, config, **kwargs):
        device = self.manager.stored["fuse"]
        script = 'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=fuse exec "$0" service serve "$1" 3<&"$2"'
        return self.started("bash", "-c", script, WEIGHTFS, config, str(device), env=self.environment(), pass_fds=(device, ),
                            **kwargs)

    def serve_stored_as_nobody(self, config, groups=(), **more):
        os.chmod(self.tmp, 0o755)
        binary = self.program_of_nobody()
        os.makedirs(self.path("cache"), exist_ok=True)
        os.chown(self.path("cache"), NOBODY.pw_uid, NOBODY.pw_gid)
        device = self.manager.stored["fuse"]
        os.chmod(self.path("notify"), 0o777)
        script = 'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=fuse exec "$0" service serve "$1" 3<&"$2"'
        return self.started("bash", "-c", script, binary, config, str(device), env=self.environment(**more), pass_fds=(device,),
                            user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=groups)

    def program_of_nobody(self):
        """A copy of the program that all users can run."""
        binary = self.path("weightfs")
        if not os.path.exists(binary):
            shutil.copy(WEIGHTFS, binary)
            os.chmod(binary, 0o755)
        return binary


@only_root_mounts
class PassedMounts(ServiceMountTestCase):
    def text(self, path):
        with open(path) as file:
            return file.read()

    def mount_line(self):
        with open("/proc/self/mountinfo") as file:
            return next(line for line in file if f" {self.point} " in line)

    def test_mount_is_made_by_one_process_and_served_by_another(self):
        config = self.config(OPTIONS="noexec")
        self.attach(config)
        self.assertIn(f" - fuse.weightfs {self.path('model.safetensors')} ", self.mount_line())
        self.assertIn("ro,nosuid,nodev,noexec", self.mount_line())
        process = self.serve_stored(config)
        self.assertEqual(self.manager.stored, {}, "only the server has the descriptor, so the mount ends with it")
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        status = json.loads(self.read("mnt", ".weightfs", "status.json"))
        self.assertEqual(status["passthrough"]["reason"],
                         f"no broker of backing files: {self.path('run-passthrough.sock')}: No such file or directory")
        self.stop(process)
        self.assertTrue(is_mounted(self.point), "the mounting user can unmount")
        self.detach(config)

    def test_signature_in_a_url_is_not_in_the_mount_table(self):
        config = self.config(SOURCE="https://127.0.0.1:1/model.gguf?Signature=secret")
        self.attach(config)
        self.assertIn(" - fuse.weightfs https://127.0.0.1:1/model.gguf ", self.mount_line())
        self.detach(config)

    def test_created_directories_are_accessible_to_all_users(self):
        self.point = self.path("made", "for", "mnt")
        config = self.config()
        done = subprocess.run([WEIGHTFS, "service", "attach", config], env=self.environment(), umask=0o077, timeout=LIMIT_S)
        modes = [os.stat(self.path(directory)).st_mode & 0o7777 for directory in ("made", "made/for")]
        self.detach(config)
        self.assertEqual((done.returncode, modes), (0, [0o755, 0o755]))

    def test_server_needs_no_privilege(self):
        config = self.config()
        self.attach(config)
        process = self.serve_stored_as_nobody(config)
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        self.assertEqual(os.stat(f"{self.point}/tensors/bias").st_uid, NOBODY.pw_uid)
        device = os.stat(self.point).st_dev
        read_ahead = f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"
        if os.access(read_ahead, os.W_OK):
            self.assertLess(int(self.text(read_ahead)), 1024)
            self.assertEqual(self.call("set-readahead", config).returncode, 0)
            self.assertEqual(int(self.text(read_ahead)), 1024)
        self.stop(process)
        self.detach(config)

    def test_heartbeat_works_if_the_server_cannot_read_the_mount(self):
        config = self.config(OPTIONS="uid=root,gid=root,umask=077")
        self.attach(config)
        process = self.serve_stored_as_nobody(config, WATCHDOG_USEC="300000")
        self.manager.wait_for(lambda notification: notification.get("WATCHDOG") == "1")
        self.stop(process)
        self.detach(config)

    def test_killed_server_blocks_no_reader_and_detach_removes_the_mount(self):
        config = self.config()
        self.attach(config)
        process = self.serve_stored(config)
        with open(f"{self.point}/tensors/bias", "rb", buffering=0) as file:
            process.kill()
            process.wait(LIMIT_S)
            with self.assertRaises(OSError):
                os.getxattr(self.point, "user.weightfs.pid")
            self.detach(config)
        self.attach(config)
        process = self.serve_stored(config)
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        self.stop(process)
        self.detach(config)

    def test_unserved_mount_is_removed(self):
        config = self.config()
        self.attach(config)
        self.detach(config)
        self.detach(config)

    def test_mount_is_removed_at_its_original_path(self):
        config = self.config()
        self.attach(config)
        self.config(MOUNTPOINT=self.path("other"))
        self.detach(config)
        self.assertFalse(os.path.exists(self.path("other")))

    def test_mount_served_by_another_process_is_kept(self):
        source = self.sample()
        self.mount(source)
        server = self.server(self.point)
        config = self.config()
        for verb in ("attach", "detach"):
            done = self.call(verb, config)
            self.assertEqual(done.returncode, 6)
            self.assertIn("already mounted there", done.stderr)
            self.assertEqual(self.server(self.point), server)
        self.unmount(self.point)

    def refused(self, verb, config, *run_by):
        done = subprocess.run([*run_by, WEIGHTFS, "service", verb, config], env=self.environment(), capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (6, 1), done.stderr)
        self.assertTrue(is_mounted(self.point))
        return done.stderr

    @unittest.skipIf(is_sanitized(), "sanitizers need additional descriptors")
    def test_mount_with_unknown_state_is_kept(self):
        config = self.config()
        self.mount(self.path("model.safetensors"))
        for verb in ("attach", "detach"):
            # Too few descriptors for the pipe to a child process.
            self.assertIn("cannot determine the state", self.refused(verb, config, "prlimit", "--nofile=4"))

    def test_hung_mount_of_others_is_kept(self):
        config = self.config()
        self.mount(self.path("model.safetensors"))
        server = self.server(self.point)
        self.addCleanup(os.kill, server, signal.SIGCONT)
        halt(server)
        for verb in ("attach", "detach"):
            self.assertIn("is not responding", self.refused(verb, config))
        os.kill(server, signal.SIGCONT)
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)

    def test_own_hung_mount_is_removed(self):
        config = self.config()
        self.attach(config)
        process = self.serve_stored(config)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        halt(process.pid)
        self.detach(config)

    def test_covered_mount_stays_recorded(self):
        config = self.config()
        self.attach(config)
        subprocess.run(["mount", "-t", "tmpfs", "none", self.point], check=True)
        self.addCleanup(self.force_unmount, self.point)
        self.assertIn("another file system is mounted over", self.refused("detach", config))
        self.assertEqual(os.listdir(self.path("run")), ["a.mounted"])
        subprocess.run(["umount", self.point], check=True)
        self.detach(config)

    def test_missing_service_manager_leaves_no_mount(self):
        environment = self.environment()
        del environment["NOTIFY_SOCKET"]
        done = subprocess.run([WEIGHTFS, "service", "attach", self.config()], env=environment, capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual(done.returncode, 6)
        self.assertIn("no service manager", done.stderr)
        self.assertFalse(is_mounted(self.point))

    def test_mount_invisible_to_the_server_is_reported(self):
        self.need_mount_namespace()
        config = self.config()
        self.attach(config)
        device = self.manager.stored["fuse"]
        script = 'umount -l "$3"; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=fuse exec "$0" service serve "$1" 3<&"$2"'
        done = subprocess.run(["unshare", "--mount", "bash", "-c", script, WEIGHTFS, config, str(device), self.point],
                              env=self.environment(), pass_fds=(device,), capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn("mount not visible to the service", done.stderr)
        self.detach(config)


class AtAnAutomountPoint(ServiceMountTestCase):
    """mount.weightfs -o service=NAME at an automount point; a script replaces systemd."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.point)
        news, daemon = os.pipe()
        self.addCleanup(os.close, news)
        # Processes of the daemon's group are not blocked there, so the test and its children have another group.
        options = f"fd={daemon},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct"
        mounted = LIBC.mount(b"systemd-1", self.point.encode(), b"autofs", 0, options.encode())
        error = ctypes.get_errno()
        os.close(daemon)
        if mounted != 0:
            self.skipTest(f"cannot create an automount point: {os.strerror(error)}")
        self.addCleanup(self.clear_point)
        self.offer = self.path("run", "a.offer")
        os.symlink(WEIGHTFS, self.path("mount.weightfs"))
        self.written = self.config()

    def kinds(self):
        """The file systems mounted there, the topmost last."""
        with open("/proc/self/mountinfo") as file:
            return [line.partition(" - ")[2].split()[0] for line in file if line.split()[4] == self.point]

    def clear_point(self):
        while self.kinds():
            subprocess.run(["umount", "-l", self.point], check=True)

    def helper(self, systemctl):
        """Starts the helper with this script as `systemctl`."""
        self.write("bin/new", f"#!/bin/sh\n[ \"$*\" = 'start -- weightfs@a.service' ] || exit 2\n{systemctl}\n".encode())
        os.rename(self.path("bin", "new"), self.path("bin", "systemctl"))  # the former one may be started at this moment
        os.chmod(self.path("bin", "systemctl"), 0o755)
        environment = self.environment(PATH=f"{self.path('bin')}:{os.environ['PATH']}", WEIGHTFS_MOUNTS=self.tmp)
        process = subprocess.Popen([self.path("mount.weightfs"), "a", self.point, "-o", "service=a"], env=environment,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def waiting_helper(self):
        """Starts a helper, and waits until its service is being started."""
        helper = self.helper("exec sleep 1000")
        until(lambda: os.path.exists(self.offer), "nothing is offered")
        return helper

    def assert_fails(self, helper):
        """The message of the helper, which mounts nothing and leaves nothing behind."""
        message = helper.communicate(timeout=LIMIT_S)[1]
        self.assertEqual((helper.returncode, self.kinds(), os.listdir(self.path("run"))), (32, ["autofs"], []), message)
        return message

    def connect_as_service(self):
        """Requests the mount like a service."""
        taker = socket.socket(socket.AF_UNIX)
        self.addCleanup(taker.close)
        until(lambda: taker.connect_ex(self.offer) == 0, "the descriptor is not offered")
        return taker

    def test_service_receives_the_mount_of_the_helper(self):
        helper = self.helper(f"'{WEIGHTFS}' service attach '{self.written}' && exec sleep 1000")
        self.assertEqual((helper.communicate(timeout=LIMIT_S)[1], helper.returncode), ("", 0))
        self.assertEqual(self.kinds(), ["autofs", "fuse.weightfs"])
        self.manager.wait_for(lambda notification: notification.get("FDNAME") == "fuse" and "FDSTORE" in notification)
        until(lambda: os.listdir(self.path("run")) == ["a.mounted"], lambda: os.listdir(self.path("run")))
        process = self.serve_stored(self.written)
        self.assertEqual(self.read("mnt", "tensors", "bias"), BIAS)
        self.stop(process)
        self.assertEqual((self.call("detach", self.written).returncode, self.kinds()), (0, ["autofs"]))

    def test_receiver_that_dies_leaves_no_mount(self):
        helper = self.waiting_helper()
        self.connect_as_service().close()
        self.assertIn("did not accept the mount", self.assert_fails(helper))
        self.assertEqual(os.listdir(self.point), [])

    def test_receiver_that_dies_before_receiving_leaves_no_mount(self):
        helper = self.waiting_helper()
        taker = self.connect_as_service()
        until(lambda: self.kinds() == ["autofs", "fuse.weightfs"], "nothing is mounted")
        taker.close()
        self.assertIn("did not accept the mount", self.assert_fails(helper))

    def test_helper_waits_until_the_start_ends(self):
        for status in (0, 1):
            os.mkfifo(self.path("end"))
            helper = self.helper(f"read line <'{self.path('end')}'; exit {status}")
            until(lambda: os.path.exists(self.offer), "nothing is offered")
            self.write("end", b"now\n")
            self.assertIn("weightfs@a.service: start failed", self.assert_fails(helper))
            os.unlink(self.path("end"))

    def test_second_helper_does_not_disturb_the_first(self):
        first = self.waiting_helper()
        second = self.helper("exec sleep 1000")
        self.assertIn("already", second.communicate(timeout=LIMIT_S)[1])
        self.assertEqual(second.returncode, 32)
        self.connect_as_service().close()
        self.assertIn("did not accept the mount", self.assert_fails(first))

    def test_next_helper_mounts_after_a_killed_one(self):
        helper = self.waiting_helper()
        helper.kill()
        helper.wait()

        def end_others():
            """Like systemd for remaining processes of a mount unit. One that begins a program is not found at that moment."""
            others = processes_of(self.tmp)
            for pid in others:
                os.kill(pid, signal.SIGKILL)
            return not others
        until(end_others, "processes remain")
        until(end_others, "processes remain")
        self.test_service_receives_the_mount_of_the_helper()


class Generator(TestCase):
    def generate(self, **configs):
        for name, text in configs.items():
            self.write(f"mounts.d/{name}.conf", text.encode())
        shutil.rmtree(self.path("units"), ignore_errors=True)
        os.mkdir(self.path("units"))
        return self.run_generator()

    def run_generator(self):
        generator = self.path("weightfs-generator")
        if not os.path.lexists(generator):
            os.symlink(WEIGHTFS, generator)
        done = subprocess.run([generator, *[self.path("units")] * 3], env={**os.environ, "WEIGHTFS_MOUNTS": self.path("mounts.d")},
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        return done.stderr

    def test_config_generates_automount_and_mount_units(self):
        self.assertEqual(self.generate(a="SOURCE=/m\nMOUNTPOINT=/srv/my-weights\nAUTOMOUNT=yes\nAUTOMOUNT_IDLE=60\n"), "")
        unit = r"srv-my\x2dweights"
        self.assertEqual(sorted(os.listdir(self.path("units"))), ["multi-user.target.wants", f"{unit}.automount", f"{unit}.mount"])
        self.assertEqual(os.readlink(self.path("units", "multi-user.target.wants", f"{unit}.automount")), f"../{unit}.automount")
        automount = self.read("units", f"{unit}.automount").decode()
        self.assertIn("[Automount]\nWhere=/srv/my-weights\n", automount)
        mount = self.read("units", f"{unit}.mount").decode()
        self.assertIn("[Mount]\nWhat=a\nWhere=/srv/my-weights\nType=weightfs\nOptions=service=a\n", mount)

    def test_config_without_automount_generates_no_units(self):
        self.assertEqual(self.generate(a="SOURCE=/m\nMOUNTPOINT=/w\n", b="SOURCE=/m\nMOUNTPOINT=/v\nAUTOMOUNT=no\n"), "")
        self.assertEqual(os.listdir(self.path("units")), [])

    def test_invalid_config_is_skipped_with_a_message(self):
        good = "SOURCE=/m\nAUTOMOUNT=yes\nMOUNTPOINT="
        message = self.generate(a="nonsense", good=good + "/w", **{"white space": good + "/v"}, long=good + "/" + "x" * 250,
                                control=good + "/a\tb", end=good + r"'/a\'")
        self.assertEqual(len(message.splitlines()), 5, message)
        self.assertIn("a.conf:1: ", message)
        self.assertIn("white space.conf: invalid service name", message)
        self.assertEqual(sorted(os.listdir(self.path("units"))), ["multi-user.target.wants", "w.automount", "w.mount"])

    def test_unreadable_configs_do_not_prevent_booting(self):
        os.mkdir(self.path("mounts.d"))
        os.mkfifo(self.path("mounts.d", "fifo.conf"))
        os.mkdir(self.path("mounts.d", "folder.conf"))
        os.symlink("/dev/zero", self.path("mounts.d", "device.conf"))
        os.symlink("absent", self.path("mounts.d", "link.conf"))
        message = self.generate(**{"new\nline": "SOURCE=/m\nAUTOMOUNT=yes\nMOUNTPOINT=/w\n"})
        self.assertEqual(len(message.splitlines()), 5, message)
        self.assertEqual(os.listdir(self.path("units")), [])

    def test_existing_units_are_not_replaced(self):
        text = "SOURCE=/m\nAUTOMOUNT=yes\nMOUNTPOINT="
        for name, point in (("a", "/w"), ("b", "/w"), ("c", "/of-fstab")):
            self.write(f"mounts.d/{name}.conf", (text + point).encode())
        self.write(r"units/of\x2dfstab.mount", b"[Mount]\n")
        line, other = self.run_generator().splitlines()
        self.assertIn("b.conf: ", line)
        self.assertIn("w.mount: already exists", line)
        self.assertIn("c.conf: ", other)
        self.assertIn("What=a\n", self.read("units", "w.mount").decode())
        self.assertEqual(self.read("units", r"of\x2dfstab.mount"), b"[Mount]\n")
        self.assertEqual(os.listdir(self.path("units", "multi-user.target.wants")), ["w.automount"])

    def test_missing_config_directory_is_not_an_error(self):
        self.assertEqual(self.generate(), "")

    @unittest.skipUnless(shutil.which("systemd-escape"), "no systemd-escape here")
    def test_unit_names_match_systemd_escape(self):
        paths = ["/a", "/srv/models", "/a-b/c", "/.hidden/.b", "/a b", "/100%", "/ü/ß", "/a\\x2db", "/a:b_c.d", "/@", "/!\"'#$&()"]
        self.generate(
            **{
                f"c{i}": f"SOURCE=/m\nAUTOMOUNT=yes\nMOUNTPOINT='{path}'\n" if "'" not in
                path else "SOURCE=/m\nAUTOMOUNT=yes\nMOUNTPOINT=" +
                path.replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\'") + "\n" for i, path in enumerate(paths)
            })
        names = subprocess.run(["systemd-escape", "--path", "--suffix=automount", *paths], capture_output=True, text=True,
                               check=True)
        self.assertEqual(sorted(os.listdir(self.path("units", "multi-user.target.wants"))), sorted(names.stdout.split()))
        self.assertIn("Where=/100%%\n", self.read("units", r"100\x25.mount").decode())


if __name__ == "__main__":
    unittest.main()
