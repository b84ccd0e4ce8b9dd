"""Checks of the units, run as root inside a container in which systemd is PID 1, by test_systemd.py. Prints a line of JSON for
each check: [name, null], [name, the failure], or [name, {"skipped": the reason}]."""
import glob
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

LIMIT_S = 20
MODELS = "/srv/models"
BIAS = b"".join(i.to_bytes(4, "little") for i in range(4))


def command(*argv, check=True, **kwargs):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S + 40, check=False,
                          **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{argv}: {done.returncode}: {done.stdout}")
    return done.stdout


def systemctl(*argv, **kwargs):
    return command("systemctl", *argv, **kwargs)


def shown(unit, *properties):
    """Properties of a unit, as printed by systemctl; a single one as text."""
    out = dict(line.partition("=")[::2] for line in systemctl("show", unit, "-p", ",".join(properties)).splitlines())
    return out[properties[0]] if len(properties) == 1 else out


def journal(unit):
    """The entries of a unit since the boot, as dicts."""
    command("journalctl", "--sync")
    return [json.loads(line) for line in command("journalctl", "-b", "-o", "json", "-u", unit).splitlines()]


def mounts(point):
    """The types of the file systems mounted at a point, the lowest first."""
    with open("/proc/self/mountinfo") as file:
        return [line.split(" - ")[1].split()[0] for line in file if line.split()[4] == point]


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never came true: {what}")
        time.sleep(0.02)  # it polls; this file runs in a container, without the other files of tests


class Booted(unittest.TestCase):
    """Each check has its own service."""

    def setUp(self):
        self.name = self.id().rpartition(".test_")[2]
        self.unit = f"weightfs@{self.name}.service"
        self.point = f"/srv/{self.name}"

    def tearDown(self):
        systemctl("stop", self.unit)
        systemctl("reset-failed", self.unit, check=False)
        self.assertEqual(mounts(self.point).count("fuse.weightfs"), 0)
        wait_until(lambda: self.brokers() == [], "the broker's end")

    def configure(self, **more):
        lines = {"SOURCE": f"{MODELS}/model.safetensors", "MOUNTPOINT": self.point, **more}
        with open(f"/etc/weightfs/mounts.d/{self.name}.conf", "w") as file:
            file.writelines(f"{key}={value}\n" for key, value in lines.items())

    def start(self, **more):
        self.configure(**more)
        systemctl("start", self.unit)

    def start_fails(self):
        self.configure()
        systemctl("start", self.unit, check=False)
        wait_until(lambda: shown(self.unit, "ActiveState") in ("failed", "activating"), "an end")
        self.assertEqual(mounts(self.point), [])

    def bias(self):
        """The bytes of a tensor, read by another user."""
        return bytes.fromhex(command("od", "-An", "-v", "-tx1", f"{self.point}/tensors/bias", user="nobody", group="nogroup"))

    def pid(self):
        return int(shown(self.unit, "MainPID"))

    def log(self):
        return "\n".join(entry["MESSAGE"] for entry in journal(self.unit))

    def test_service_mount_is_readable_by_all_users(self):
        self.start()
        self.assertEqual(shown(self.unit, "ActiveState", "Result"), {"ActiveState": "active", "Result": "success"})
        self.assertEqual(self.bias(), BIAS)
        self.assertIn(f"{MODELS}/model.safetensors at {self.point}: ", shown(self.unit, "StatusText"))
        self.assertIn("Status: ", systemctl("status", self.unit))
        systemctl("stop", self.unit)
        self.assertEqual(shown(self.unit, "ActiveState", "Result"), {"ActiveState": "inactive", "Result": "success"})
        self.assertEqual(os.listdir(self.point), [])

    def test_server_process_has_minimal_privileges(self):
        self.start()
        with open(f"/proc/{self.pid()}/status") as file:
            status = dict(line.rstrip("\n").split(":\t") for line in file)
        self.assertEqual(status["Uid"].split()[0], str(pwd.getpwnam("weightfs").pw_uid))
        self.assertEqual((int(status["CapPrm"], 16), int(status["CapBnd"], 16)), (0, 0))
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertNotIn("landlock", self.log())  # logged if Landlock cannot be used
        self.assertEqual(shown(self.unit, "NFileDescriptorStore"), "0")
        # A waiting reader that is killed is recognised by /proc/PID/status; locks of downloads contain the boot id.
        for path in ("/proc/1/status", "/proc/sys/kernel/random/boot_id"):
            self.assertTrue(
                command("nsenter", f"--target={self.pid()}", "--mount", "setpriv", "--reuid=weightfs", "--clear-groups", "cat",
                        path))
        # The heartbeat thread, which probes the mount, is not counted.
        without = [task for task in glob.glob(f"/proc/{self.pid()}/task/*")
                   if not any(os.path.realpath(descriptor).endswith("/fuse") for descriptor in glob.glob(f"{task}/fd/*"))]
        self.assertEqual(len(without), 1)
        self.assertEqual(os.stat("/var/cache/weightfs-service").st_mode & 0o7777, 0o700)

    def test_units_pass_systemd_analyze(self):
        for name in ("system", "user"):
            unit, = glob.glob(f"/usr/local/lib/systemd/{name}/weightfs@.service")
            out = command("systemd-analyze", f"--{name}", "verify", "--man=no", unit, env={**os.environ, "XDG_RUNTIME_DIR": "/run"})
            self.assertEqual(out, "")
        for unit in ("weightfs-passthrough.socket", "weightfs-passthrough@.service"):
            self.assertEqual(command("systemd-analyze", "verify", "--man=no", f"/usr/local/lib/systemd/system/{unit}"), "")
        for unit, threshold in ((self.unit, 15), ("weightfs-passthrough@1.service", 10)):
            out = command("systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", "--no-pager", unit)
            self.assertIn("Overall exposure level", out)

    def passthrough(self):
        with open(f"{self.point}/.weightfs/status.json") as file:
            return json.load(file)["passthrough"]

    def brokers(self):
        """The units of the brokers of backing files."""
        return [
            line.split()[0] for line in systemctl("list-units", "--plain", "--no-legend", "weightfs-passthrough@*").splitlines()
        ]

    def start_with_passthrough(self):
        """Starts a service with a file that can pass through: on tmpfs, because those of an overlay cannot."""
        os.makedirs("/run/models", exist_ok=True)
        path = shutil.copy(f"{MODELS}/model.safetensors", f"/run/models/{self.name}")
        os.chmod(path, 0o444)
        self.start(SOURCE=path)
        passthrough = self.passthrough()
        if passthrough.get("reason") == "kernel without passthrough":
            self.skipTest(passthrough["reason"])
        self.assertTrue(passthrough["available"], passthrough)

    def tier(self):
        """How the file of the model is read; its bytes are right."""
        with open(f"{MODELS}/model.safetensors", "rb") as source, open(f"{self.point}/files/{self.name}", "rb") as file:
            self.assertEqual(file.read(), source.read())
            return [each["tier"] for each in self.passthrough()["files"] if each["path"] == f"files/{self.name}"]

    def test_file_of_a_service_passes_through(self):
        self.start_with_passthrough()
        self.assertEqual(self.tier(), ["passthrough"])
        broker, = self.brokers()
        with open(f"/proc/{shown(broker, 'MainPID')}/status") as file:
            status = dict(line.rstrip("\n").split(":\t") for line in file)
        self.assertEqual(status["Uid"].split()[0], str(pwd.getpwnam("weightfs").pw_uid))
        self.assertEqual((int(status["CapPrm"], 16), int(status["CapBnd"], 16)), (1 << 21, 1 << 21))
        systemctl("stop", self.unit)  # the broker ends, too

    def test_restarted_server_has_another_broker(self):
        self.start_with_passthrough()
        before, = self.brokers()
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: shown(self.unit, "ActiveState") == "active" and self.pid() not in (0, pid), "another server")
        self.assertEqual(self.tier(), ["passthrough"])
        wait_until(lambda: len(self.brokers()) == 1, "the broker's end")
        self.assertNotEqual(self.brokers(), [before])

    def test_stopped_broker_leaves_files_to_the_server(self):
        self.start_with_passthrough()
        systemctl("stop", *self.brokers())
        self.assertEqual(self.tier(), ["server"])
        self.assertEqual(shown(self.unit, "ActiveState"), "active")

    def test_service_works_without_the_socket(self):
        self.configure()
        systemctl("stop", "weightfs-passthrough.socket")
        systemctl("mask", "--runtime", "weightfs-passthrough.socket")
        self.addCleanup(systemctl, "unmask", "--runtime", "weightfs-passthrough.socket")
        systemctl("start", self.unit)
        self.assertEqual(self.bias(), BIAS)
        self.assertEqual(self.passthrough()["reason"],
                         "no broker of backing files: /run/weightfs-passthrough.sock: No such file or directory")

    def test_model_that_is_copied_into_a_directory_is_listed_for_an_ordinary_user(self):
        directory = f"/srv/models-of-{self.name}"
        os.makedirs(directory)
        for name in ("a", "b"):
            shutil.copy(f"{MODELS}/model.safetensors", f"{directory}/{name}.safetensors")
        self.start(SOURCE=directory)
        nobody = pwd.getpwnam("nobody")

        def listed():
            return command("ls", self.point, user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[]).split()
        self.assertEqual(listed(), ["a.safetensors", "b.safetensors"])
        shutil.copy(f"{MODELS}/model.safetensors", f"{directory}/c.safetensors")
        wait_until(lambda: "c.safetensors" in listed(), "the copied model is listed")
        with open(f"{self.point}/c.safetensors/tensors/bias", "rb") as file:
            self.assertEqual(file.read(), BIAS)
        os.unlink(f"{directory}/a.safetensors")
        systemctl("reload", self.unit)
        self.assertEqual(listed(), ["b.safetensors", "c.safetensors"])

    def test_reload_keeps_open_files_readable(self):
        self.start()
        with open(f"{self.point}/tensors/bias", "rb", buffering=0) as file:
            self.assertEqual(file.read(4), BIAS[:4])
            pid = self.pid()
            self.configure(OPTIONS="log_level=debug,no_cache")
            systemctl("reload", self.unit)
            wait_until(lambda: "restart needed to apply: no_cache" in self.log(), "the reload's line")
            self.assertEqual(file.read(), BIAS[4:])
            self.assertEqual(self.pid(), pid)
        wait_until(lambda: shown(self.unit, "ActiveState") == "active", "active again")
        self.configure(OPTIONS="cache_siz=1G")
        self.assertIn("failed", systemctl("reload", self.unit, check=False))
        self.assertIn("did you mean cache_size", self.log())
        self.assertEqual((shown(self.unit, "ActiveState"), self.pid()), ("active", pid))

    def test_starts_and_restarts_have_no_rate_limit(self):
        self.start()
        for _ in range(7):
            systemctl("restart", self.unit)
        self.assertEqual(self.bias(), BIAS)

    def test_unreadable_source_is_reported_once(self):
        os.makedirs("/srv/closed", mode=0o700)
        self.configure(SOURCE="/srv/closed/model.safetensors")
        systemctl("start", self.unit, check=False)
        self.assertEqual(shown(self.unit, "ActiveState", "NRestarts"), {"ActiveState": "failed", "NRestarts": "0"})
        self.assertIn("/srv/closed: user weightfs cannot enter it", self.log())

    def test_unreachable_mount_point_is_reported(self):
        self.point = "/root/weights"
        os.chmod("/root", 0o700)
        self.start_fails()
        self.assertIn("/root: user weightfs cannot enter it", self.log())

    def test_mount_point_that_hides_its_source_is_refused(self):
        self.point = MODELS
        self.start_fails()
        self.assertIn("would hide", self.log())
        self.assertEqual(shown(self.unit, "NRestarts"), "0")

    def test_killed_server_is_restarted(self):
        self.start()
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: shown(self.unit, "ActiveState") == "active" and self.pid() not in (0, pid), "another server")
        self.assertEqual(self.bias(), BIAS)
        self.assertEqual(mounts(self.point), ["fuse.weightfs"])
        self.assertEqual(shown(self.unit, "NRestarts"), "1")

    def test_hung_server_is_restarted(self):
        os.makedirs(f"/run/systemd/system/{self.unit}.d")
        with open(f"/run/systemd/system/{self.unit}.d/short.conf", "w") as file:
            file.write("[Service]\nWatchdogSec=1\n")
        systemctl("daemon-reload")
        self.start()
        pid = self.pid()
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: shown(self.unit, "ActiveState") == "active" and self.pid() not in (0, pid), "another server")
        self.assertIn("Watchdog timeout", self.log())
        self.assertEqual(self.bias(), BIAS)

    def test_service_with_a_stopped_server_can_be_stopped(self):
        self.start()
        os.kill(self.pid(), signal.SIGSTOP)
        systemctl("stop", self.unit)
        self.assertEqual(mounts(self.point), [])

    def test_busy_service_can_be_stopped(self):
        self.start()
        with open(f"{self.point}/tensors/bias", "rb", buffering=0) as file:
            working = subprocess.Popen(["sleep", "1000"], cwd=self.point)
            systemctl("stop", self.unit)
            self.assertEqual(mounts(self.point), [])
            working.kill()
            working.wait()
            with self.assertRaises(OSError):
                os.getxattr(file.fileno(), "user.weightfs.name")

    def test_missing_source_is_reported_and_leaves_no_mount(self):
        self.configure(SOURCE="/srv/absent.gguf")
        systemctl("start", self.unit, check=False)
        self.assertEqual(shown(self.unit, "ActiveState", "Result", "NRestarts"),
                         {"ActiveState": "failed", "Result": "exit-code", "NRestarts": "0"})
        self.assertEqual(mounts(self.point), [])
        line, = [entry for entry in journal(self.unit) if "/srv/absent.gguf" in entry["MESSAGE"]]
        self.assertEqual((line["PRIORITY"], line["SYSLOG_IDENTIFIER"]), ("3", "weightfs"))
        self.assertNotIn("weightfs:", line["MESSAGE"])

    def test_invalid_config_is_reported(self):
        self.configure(OPTIONS="cache_siz=1G")
        systemctl("start", self.unit, check=False)
        self.assertEqual(shown(self.unit, "ActiveState"), "failed")
        self.assertIn("did you mean cache_size", self.log())

    def test_changed_mount_point_leaves_no_mount(self):
        self.start(MOUNTPOINT="/srv/before")
        self.configure()
        systemctl("restart", self.unit)
        self.assertEqual((mounts("/srv/before"), mounts(self.point)), ([], ["fuse.weightfs"]))
        self.assertEqual(self.bias(), BIAS)

    def test_mount_points_in_home_work_and_in_tmp_are_refused(self):
        os.makedirs("/home/somebody", exist_ok=True)
        self.point = "/home/somebody/weights"
        self.start()
        self.assertEqual(self.bias(), BIAS)
        systemctl("stop", self.unit)
        self.configure(MOUNTPOINT="/tmp/weights")
        systemctl("start", self.unit, check=False)
        self.assertIn("mount not visible to the service", self.log())
        self.assertEqual(mounts("/tmp/weights"), [])

    def test_manual_unmount_is_undone_by_the_next_start(self):
        self.start()
        command("umount", self.point)
        wait_until(lambda: shown(self.unit, "ActiveState") == "inactive", "the server's end")
        systemctl("start", self.unit)
        self.assertEqual(self.bias(), BIAS)

    def test_user_services_work(self):
        self.point = "/srv/of-a-user"
        self.configure()
        os.makedirs("/root/.config/weightfs/mounts.d", exist_ok=True)
        os.rename(f"/etc/weightfs/mounts.d/{self.name}.conf", f"/root/.config/weightfs/mounts.d/{self.name}.conf")
        systemctl("start", "user@0.service")
        environment = {**os.environ, "XDG_RUNTIME_DIR": "/run/user/0"}
        user = lambda *argv: systemctl("--user", *argv, env=environment)  # noqa: E731
        user("start", self.unit)
        with open(f"{self.point}/tensors/bias", "rb") as file:
            self.assertEqual(file.read(), BIAS)
        pid = int(user("show", "-P", "MainPID", self.unit))
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: user("show", "-P", "ActiveState", self.unit) == "active\n"
                   and int(user("show", "-P", "MainPID", self.unit)) not in (0, pid), "another server")
        self.assertEqual(mounts(self.point), ["fuse.weightfs"])
        user("stop", self.unit)
        self.assertEqual(mounts(self.point), [])
        systemctl("stop", "user@0.service")

    def test_automount_mounts_on_first_access(self):
        self.configure(AUTOMOUNT="yes", AUTOMOUNT_IDLE="1")
        systemctl("daemon-reload")
        automount = command("systemd-escape", "--path", "--suffix=automount", self.point).strip()
        self.assertIn(automount, os.listdir("/run/systemd/generator/multi-user.target.wants"))
        systemctl("start", automount)
        self.assertEqual((mounts(self.point), shown(self.unit, "ActiveState")), (["autofs"], "inactive"))
        self.assertEqual(self.bias(), BIAS)
        self.assertEqual(mounts(self.point), ["autofs", "fuse.weightfs"])
        # The server replies to its first request before it reports that it is ready.
        wait_until(lambda: shown(self.unit, "ActiveState") == "active", "a service that is ready")
        wait_until(lambda: mounts(self.point) == ["autofs"], "unmounted when unused")
        wait_until(lambda: shown(self.unit, "ActiveState") == "inactive", "the server's end")
        self.assertEqual(self.bias(), BIAS)
        systemctl("stop", self.unit)
        self.assertEqual(self.bias(), BIAS)
        systemctl("stop", self.unit)
        systemctl("start", self.unit)
        self.assertEqual(mounts(self.point), ["autofs", "fuse.weightfs"])
        systemctl("stop", automount)
        self.assertEqual(mounts(self.point), [])

    def test_package_removal_stops_services(self):
        self.start()
        self.name = "of-an-automount"
        self.configure(AUTOMOUNT="yes", MOUNTPOINT="/srv/of-an-automount")
        systemctl("daemon-reload")
        automount = command("systemd-escape", "--path", "--suffix=automount", "/srv/of-an-automount").strip()
        systemctl("start", automount)
        command("ls", "/srv/of-an-automount")
        command("sh", "/checks/prerm", "upgrade")
        self.assertEqual((mounts(self.point), mounts("/srv/of-an-automount")), (["fuse.weightfs"], ["autofs", "fuse.weightfs"]))
        command("sh", "/checks/prerm", "remove")
        for unit in (self.unit, "weightfs@of-an-automount.service", automount, "weightfs-passthrough.socket"):
            self.assertEqual(shown(unit, "ActiveState"), "inactive", unit)
        self.assertEqual((mounts(self.point), mounts("/srv/of-an-automount")), ([], []))

    def test_first_access_fails_if_mounting_fails(self):
        self.configure(AUTOMOUNT="yes", SOURCE="/srv/absent")
        systemctl("daemon-reload")
        automount = command("systemd-escape", "--path", "--suffix=automount", self.point).strip()
        systemctl("start", automount)
        with self.assertRaises(OSError):
            os.listdir(self.point)
        systemctl("stop", automount)
        self.assertEqual(mounts(self.point), [])

    def test_fstab_automount_mounts_on_first_access(self):
        # The line was in /etc/fstab at boot.
        self.assertEqual(mounts("/srv/fstab"), ["autofs"])
        self.point = "/srv/fstab"
        self.assertEqual(self.bias(), BIAS)
        self.assertEqual(mounts("/srv/fstab"), ["autofs", "fuse.weightfs"])
        systemctl("stop", "srv-fstab.automount")
        self.assertEqual(mounts("/srv/fstab"), [])

    def test_fstab_can_refer_to_a_service(self):
        self.configure(MOUNTPOINT="/srv/by-service")
        command("mount", "/srv/by-service")
        self.assertEqual((mounts("/srv/by-service"), shown(self.unit, "ActiveState")), (["fuse.weightfs"], "active"))
        command("umount", "/srv/by-service")
        wait_until(lambda: shown(self.unit, "ActiveState") == "inactive", "the server's end")

    def test_models_are_served_over_http(self):
        os.makedirs("/etc/weightfs/serve.d", exist_ok=True)
        with open(f"/etc/weightfs/serve.d/{self.name}.conf", "w") as file:
            file.write(f"SOURCE={MODELS}/model.safetensors\n")
        socket, service = (f"weightfs-serve@{self.name}.{kind}" for kind in ("socket", "service"))
        systemctl("start", socket)
        try:
            self.assertEqual(shown(service, "ActiveState"), "inactive")  # the first request starts it
            with urllib.request.urlopen("http://127.0.0.1:8421/tensors/bias", timeout=LIMIT_S) as response:
                self.assertEqual(response.read(), BIAS)
            self.assertEqual(shown(service, "ActiveState", "Result"), {"ActiveState": "active", "Result": "success"})
            with open(f"/proc/{shown(service, 'MainPID')}/status") as file:
                status = dict(line.rstrip("\n").split(":\t") for line in file)
            self.assertEqual(status["Uid"].split()[0], str(pwd.getpwnam("weightfs").pw_uid))
            self.assertEqual((int(status["CapPrm"], 16), status["NoNewPrivs"], status["Seccomp"]), (0, "1", "2"))
        finally:
            systemctl("stop", socket, service)
        self.assertEqual(shown(service, "ActiveState", "Result"), {"ActiveState": "inactive", "Result": "success"})


def names():
    return [name for name in dir(Booted) if name.startswith("test_")]


class JsonResult(unittest.TestResult):
    def report(self, test, wrong):
        print(json.dumps([test.id().rpartition(".")[2], wrong]), flush=True)

    def addSuccess(self, test):
        self.report(test, None)

    def addFailure(self, test, err):
        self.report(test, self._exc_info_to_string(err, test) + command("journalctl", "-b", "--no-pager", "-n", "40"))

    addError = addFailure

    def addSkip(self, test, reason):
        self.report(test, {"skipped": reason})


if __name__ == "__main__":
    unittest.defaultTestLoader.loadTestsFromTestCase(Booted).run(JsonResult())
