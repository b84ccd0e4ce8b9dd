"""The sandbox: access of an exploited parser. See docs/security.md."""
import fcntl
import json
import socket
import tarfile
import tempfile
import unittest.mock
import zipfile

from mounting import (LIMIT_S, NOBODY, WEIGHTFS, MountTestCase, TestCase, UsersTestCase, has_ended, is_mounted, is_sanitized, os,
                      processes_of, run, shutil, signal, subprocess, unittest, until)
from scripted_server import Server, correct
import archives  # noqa: E402
import stores  # noqa: E402

PERMITTED = "done"
SECURITY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "security.md")


def has_hooks():
    with open(WEIGHTFS, "rb") as file:
        return b"WEIGHTFS_TEST_COMPROMISE" in file.read()


def status_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def outcomes(text):
    """The outcome of each action of the test hook."""
    lines = [line.removeprefix("compromise: ").rpartition(": ") for line in text.splitlines() if line.startswith("compromise: ")]
    return {action: result for action, _, result in lines}


needs_hooks = unittest.skipUnless(has_hooks() and not is_sanitized(),
                                  "needs a build with WEIGHTFS_TEST_HOOKS and without sanitizers")
is_confined = unittest.skipIf(is_sanitized(), "builds with sanitizers are not confined")


class InheritedDescriptors(TestCase):
    """Those of the caller, such as lock files of scripts and sockets, are not open in any command."""

    def test_other_files_are_closed(self):
        file = os.open(self.write("lock", b"locked"), os.O_RDWR)
        self.addCleanup(os.close, file)
        words = [WEIGHTFS, "serve", "--listen", "127.0.0.1:0", self.sample()]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, pass_fds=(file,), text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        self.assertIn("http://", server.stdout.readline())
        opened = f"/proc/{server.pid}/fd"
        self.assertNotIn(self.path("lock"), [os.readlink(f"{opened}/{number}") for number in os.listdir(opened)])

    @needs_hooks
    def test_no_command_has_one_of_any_kind(self):
        model, pair = self.sample(), socket.socketpair()
        self.addCleanup(pair[0].close)
        self.addCleanup(pair[1].close)
        made = [os.open(self.write("lock", b""), os.O_RDWR), os.open(self.tmp, os.O_RDONLY), *os.pipe(), os.memfd_create("m"),
                os.eventfd(0), os.open("/proc/self/mem", os.O_RDONLY)]
        given = [fcntl.fcntl(one, fcntl.F_DUPFD, 700) for one in (*made, pair[0].fileno())]  # numbers that weightfs does not use
        for descriptor in (*made, *given):
            self.addCleanup(os.close, descriptor)
        actions = [f"descriptor:{number}" for number in given]
        commands = [("info", model), ("info", "--json", model), ("info", "--duplicates", model), ("ls", "-R", model),
                    ("verify", model),
                    ("stats", model), ("fetch", model), ("diff", model, model), ("plot", model, "-o", self.path("a.png")),
                    ("export", "--to", "npz", model, self.path("a.npz")), ("cat", model, "metadata.json")]
        if os.path.exists("/dev/fuse"):
            commands.append(("mount", "--offline", model, self.path("mnt")))
            self.addCleanup(run, "umount", self.path("mnt"))
        for command in commands:
            argv = [WEIGHTFS, *command]
            with self.subTest(command[:2]):
                done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, pass_fds=given,
                                      env=dict(os.environ, WEIGHTFS_TEST_COMPROMISE=" ".join(actions)))
                self.assertEqual(outcomes(done.stderr), dict.fromkeys(actions, "Bad file descriptor"), (argv, done.stderr))

    def test_files_that_are_named_stay_open(self):
        for directory in ("/dev/fd", "/proc/self/fd"):
            for text, status in (("token", 0), ("", 2)):
                with tempfile.TemporaryFile(dir=self.tmp) as file:
                    file.write(text.encode())
                    file.flush()
                    words = [WEIGHTFS, "serve", "--listen", "127.0.0.1:0", "--token-file", f"{directory}/{file.fileno()}"]
                    server = subprocess.Popen([*words, self.sample()], stdout=subprocess.PIPE, pass_fds=(file.fileno(),),
                                              stderr=subprocess.PIPE, text=True)
                    with server:
                        began = server.stdout.readline()
                        server.terminate()
                        self.assertEqual((server.wait(LIMIT_S), "http://" in began), (status, status == 0), server.stderr.read())


@needs_hooks
class ExploitedProcess(UsersTestCase):
    """As root and as an ordinary user."""

    def setUp(self):
        super().setUp()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        self.local = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.local.close)
        self.local.bind(self.path("service"))
        self.local.listen()
        os.chmod(self.path("service"), 0o777)
        os.makedirs(self.path("models"))
        shutil.move(self.source, self.path("models", "model.safetensors"))
        self.source = self.path("models", "model.safetensors")
        # Accessible to all users, so that only the sandbox can refuse access.
        self.write("secret", b"secret")
        os.chmod(self.path("secret"), 0o666)
        os.makedirs(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        os.makedirs(self.path("cache"))
        os.chmod(self.path("cache"), 0o700)

    def environment(self, user, *actions):
        if user is not None:
            os.chown(self.path("cache"), user.pw_uid, user.pw_gid)
        return dict(os.environ, WEIGHTFS_TEST_COMPROMISE=" ".join(actions), HOME="/nonexistent")

    def run_as(self, user, *argv, actions):
        who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, cwd="/", env=self.environment(user, *actions),
                              **who)

    def actions(self):
        """Actions that must be refused for every user."""
        return [
            "open:/etc/shadow", f"open:{self.path('secret')}", f"write:{self.path('secret')}", f"write:{self.path('open', 'new')}",
            f"truncate:{self.path('secret')}", f"chmod:{self.path('secret')}", f"unlink:{self.path('secret')}",
            "write:/tmp/weightfs-compromised", f"write:{self.path('models', 'new')}", "exec:/bin/true", "fork", "map",
            f"ptrace:{os.getpid()}", f"kill:{os.getpid()}", f"mount:{self.path('open')}", f"stream:{self.path('service')}",
            self.connect(), *self.system_calls(), *self.reads_of_processes()
        ]

    def reads_of_processes(self):
        """Secrets of another process: of the user or of root."""
        return [f"open:/proc/{os.getpid()}/{name}" for name in ("environ", "mem", "maps", "fd/0")]

    def system_calls(self):
        """System calls that succeed, as one user or the other, without the sandbox."""
        of_files = [
            f"{verb}:{self.source}"
            for verb in ("times", "times-of-open-file", "chown", "xattr", "name_to_handle", "open_by_handle")
        ]
        of_processes = [f"{verb}:{os.getpid()}" for verb in ("memory", "pidfd")]
        return [
            *of_files, *of_processes, f"mknod:{self.path('open', 'fifo')}", f"umount:{self.path('open')}",
            f"chroot:{self.path('open')}", "fsopen", "exec-of-memory", "protect", "dumpable", "core", "personality", "namespace",
            "setuid", "capset", "listen", "raw", "packet", "netfilter", "io_uring", "bpf", "keyctl", "userfaultfd", "perf", "shm",
            "mptcp", "udplite", "ping", "socket-filter"
        ]

    def connect(self):
        return f"connect:127.0.0.1:{self.listener.getsockname()[1]}"

    def assert_refused(self, actions, text):
        found = outcomes(text)
        self.assertEqual(set(found), set(actions), text)
        self.assertEqual([action for action, result in found.items() if result == PERMITTED], [], text)
        self.assertEqual(self.read("secret"), b"secret")
        self.assertEqual(os.listdir(self.path("open")), [])
        self.assertFalse(os.path.exists("/tmp/weightfs-compromised"))

    def assert_works(self, action, text):
        self.assertEqual(outcomes(text), {action: PERMITTED}, text)

    def test_exploited_command_cannot_read_write_run_or_connect(self):
        for user in (None, NOBODY):
            for argv in (("info", "--offline"), ("info",), ("ls", "-R"), ("verify", "--offline")):  # of a source without links
                with self.subTest(user=user and user.pw_name, command=argv):
                    done = self.run_as(user, self.binary, *argv, self.source, actions=self.actions())
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assert_refused(self.actions(), done.stderr)
            with self.subTest(user=user and user.pw_name, command="cat"):
                done = self.run_as(user, self.binary, "cat", "--offline", self.source, "tensors/bias", actions=self.actions())
                self.assert_refused(self.actions(), done.stderr)

    def test_exploited_http_server_cannot_read_write_run_or_connect(self):
        for user in (None, NOBODY):
            with self.subTest(user=user and user.pw_name):
                who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
                server = subprocess.Popen([self.binary, "serve", "--listen", "127.0.0.1:0", "--offline", self.source],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                          cwd="/", env=self.environment(user, *self.actions()), **who)
                self.assertTrue(server.stdout.readline().startswith("http://127.0.0.1:"))
                server.terminate()
                _, text = server.communicate(timeout=LIMIT_S)
                self.assertEqual(server.returncode, 0, text)
                self.assert_refused(self.actions(), text)

    def test_exploited_server_cannot_read_write_run_or_connect(self):
        for user in (None, NOBODY):
            with self.subTest(user=user and user.pw_name):
                point = self.path("open", "mnt")
                self.addCleanup(self.force_unmount, point)
                done = self.run_as(user, self.binary, "mount", "--offline", self.source, point, actions=self.actions())
                self.assertEqual(done.returncode, 0, done.stderr)
                found = outcomes(done.stderr)
                self.assertEqual((set(found), PERMITTED in found.values()), (set(self.actions()), False), done.stderr)
                self.run_as(user, self.binary, "umount", point, actions=())
                until(lambda: not os.path.lexists(point), "the mount point stays")
                self.assert_refused(self.actions(), done.stderr)

    def further_actions(self):
        """Actions of which some are permitted: at files that the user may reach, that are a source, or in the cache."""
        os.symlink("secret", self.path("link"))
        os.setxattr(self.path("secret"), "user.test", b"1")
        secret, elsewhere, cached = self.path("secret"), self.path("open"), self.path("cache", "new")
        verbs = ("watch-all", "priority", "descriptors", "anonymous-file", "thread", "pair", "udp", "vsock", "routes", "crypto",
                 "clock", "host-name", "kernel-log", "module", "kexec", "type", "semaphore", "message-queue", "posix-queue")
        return [
            f"stat:{secret}", f"readlink:{self.path('link')}", f"getxattr:{secret}", f"path:{secret}", f"lock:{secret}",
            f"list:{elsewhere}", f"change-directory:{elsewhere}", f"mkdir:{elsewhere}/new", f"rename:{secret}", f"link:{secret}",
            f"symlink:{elsewhere}/new", f"swap:{secret}", f"account:{secret}", f"open:{self.source}", f"lock:{self.source}",
            f"watch:{elsewhere}", f"pass:{self.path('datagrams')}", f"datagram:{self.path('datagrams')}", f"write:{cached}",
            f"list:{self.path('cache')}", "open:/proc/version", f"join-namespace:{os.getpid()}", f"limits-of:{os.getpid()}", *verbs
        ]

    def test_documents_name_each_permitted_action(self):
        """Remaining risks in docs/security.md: the whole list, of nearly a hundred actions."""
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        datagrams.bind(self.path("datagrams"))
        os.chmod(self.path("datagrams"), 0o777)
        documented = {
            f"open:{self.source}": "Read the sources", f"list:{self.path('cache')}": "the cache",
            "open:/proc/version": "`/proc` shows to every process", f"write:{self.path('cache', 'new')}": "Write to the cache",
            f"datagram:{self.path('datagrams')}": "Send datagrams to local sockets",
            f"stat:{self.path('secret')}": "whether a path exists", f"readlink:{self.path('link')}": "target of a link",
            f"getxattr:{self.path('secret')}": "extended attributes", f"path:{self.path('secret')}": "opening with O_PATH",
            f"change-directory:{self.path('open')}": "change its working directory",
            f"lock:{self.source}": "Lock the files that it can read", "thread": "Start threads",
            "anonymous-file": "files in memory", "pair": "pairs of sockets"
        }
        actions = [*self.actions(), *self.further_actions()]
        self.assertEqual(len(actions), len(set(actions)))
        self.assertGreater(len(actions), 90)
        for user in (None, NOBODY):
            done = self.run_as(user, self.binary, "info", "--offline", self.source, actions=actions)
            found = outcomes(done.stderr)
            self.assertEqual(set(found), set(actions), done.stderr)
            permitted = {action for action, result in found.items() if result == PERMITTED}
            self.assertEqual(permitted, set(documented), done.stderr)
            os.remove(self.path("cache", "new"))
        with open(SECURITY, encoding="utf-8") as file:
            text = " ".join(file.read().partition("## Remaining risks")[2].partition("\n## ")[0].split())
        for action, words in documented.items():
            self.assertIn(words, text, action)

    def test_commands_that_end_neither_watch_directories_nor_pass_files(self):
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        datagrams.bind(self.path("datagrams"))
        os.chmod(self.path("datagrams"), 0o777)
        watch, passed = f"watch:{self.path('open')}", f"pass:{self.path('datagrams')}"
        for user in (None, NOBODY):
            for argv in (("info",), ("info", "--offline"), ("verify",), ("stats", "--offline")):
                with self.subTest(user=user and user.pw_name, command=argv):
                    done = self.run_as(user, self.binary, *argv, self.source, actions=[watch, passed])
                    self.assertEqual(outcomes(done.stderr), dict.fromkeys((watch, passed), "Operation not permitted"))
        done = self.run_as(None, self.binary, "info", "--sandbox=off", self.source, actions=[watch, passed])
        self.assertEqual(outcomes(done.stderr), dict.fromkeys((watch, passed), PERMITTED))

    def test_system_calls_are_refused_by_the_sandbox(self):
        """Not only because the arguments are wrong, or the user may not."""
        refusals = {"Operation not permitted", "Function not implemented", "Permission denied"}
        before = os.stat(self.source).st_ctime_ns
        for user in (None, NOBODY):
            done = self.run_as(user, self.binary, "info", self.source, actions=self.system_calls())
            self.assertEqual(set(outcomes(done.stderr).values()) - refusals, set(), done.stderr)
        self.assertEqual(os.stat(self.source).st_ctime_ns, before)

    def test_mount_helper_confines_its_server(self):
        helper, point = self.path("mount.weightfs"), self.path("mnt")
        os.symlink(self.binary, helper)
        self.addCleanup(self.force_unmount, point)
        done = self.run_as(None, helper, self.source, point, "-o", "ro,offline", actions=self.actions())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_refused(self.actions(), done.stderr)
        self.unmount(point)

    def test_service_confines_itself(self):
        os.makedirs(self.path("configuration"))  # read by a reload
        config, point = self.path("configuration", "one.conf"), self.path("mnt")
        self.write("configuration/one.conf", f"SOURCE={self.source}\nMOUNTPOINT={point}\nOPTIONS=offline\n".encode())
        process = subprocess.Popen([self.binary, "service", "serve", config], stderr=subprocess.PIPE, text=True,
                                   env=self.environment(None, *self.actions()))
        self.addCleanup(self.force_unmount, point)
        self.addCleanup(process.kill)
        until(lambda: is_mounted(point) or process.poll() is not None, "it does not mount")
        os.stat(point)
        process.send_signal(signal.SIGTERM)
        self.assert_refused(self.actions(), process.communicate(timeout=LIMIT_S)[1])

    def test_required_operations_are_permitted(self):
        for action in (f"open:{self.source}", f"write:{self.path('cache', 'new')}"):
            with self.subTest(action=action):
                done = self.run_as(None, self.binary, "info", self.source, actions=[action])
                self.assert_works(action, done.stderr)

    def test_exploited_process_with_a_fetcher_cannot_either(self):
        """A source that may need the network gives the process that reads it a way to the fetcher, and nothing else."""
        linked = stores.linked_carton(self.path("models", "m.carton"), {"far": (b"far", ["https://localhost:1/far"])})
        with open(self.source, "rb") as file:
            far = Server(self, correct(file.read())).url("model.safetensors")
        datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(datagrams.close)
        datagrams.bind(self.path("datagrams"))
        os.chmod(self.path("datagrams"), 0o777)
        keys = [f"open:{self.write(name, b'key')}" for name in ("home/.docker/config.json", "home/.ollama/id_ed25519", "home/token",
                                                                "home/.aws/credentials", "home/.netrc",
                                                                "home/.config/containers/auth.json")]
        actions = [*self.actions(), *self.further_actions(), *keys, "open:/etc/resolv.conf", "open:/etc/ssl/certs"]
        self.assertGreater(len(actions), 90)
        for user in (None, NOBODY):
            for source in (linked, far):
                with self.subTest(user=user and user.pw_name, source=source):
                    environment = dict(HOME=self.path("home"), HF_TOKEN_PATH=self.path("home/token"))
                    done = self.run_as(user, "env", *(f"{name}={value}" for name, value in environment.items()), self.binary,
                                       "info", source, actions=actions)
                    found = outcomes(done.stderr)
                    self.assertEqual(set(found), set(actions), done.stderr)
                    permitted = {action.partition(":")[0] for action, result in found.items() if result == PERMITTED}
                    self.assertLessEqual(
                        permitted, {"open", "list", "write", "datagram", "pass", "stat", "readlink", "getxattr", "path",
                                    "change-directory", "lock", "thread", "anonymous-file", "pair"}, done.stderr)
                    opened = {action for action, result in found.items() if result == PERMITTED and action.startswith("open:")}
                    self.assertLessEqual(opened, {f"open:{self.source}", "open:/proc/version"})
                    if os.path.exists(self.path("cache", "new")):
                        os.remove(self.path("cache", "new"))

    def test_same_operations_succeed_without_the_sandbox(self):
        """Without the sandbox the actions succeed, so the tests above are effective."""
        others = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(others.wait)
        self.addCleanup(others.kill)
        for action in (f"open:{self.path('secret')}", f"write:{self.path('open', 'new')}", "fork", self.connect(),
                       f"times:{self.source}", f"times-of-open-file:{self.source}", f"open:/proc/{others.pid}/environ",
                       f"pidfd:{others.pid}", "dumpable", "listen", "protect", "setuid", "shm"):
            done = self.run_as(None, self.binary, "info", "--sandbox", "off", self.source, actions=[action])
            self.assert_works(action, done.stderr)
            self.assertIn("weightfs: the sandbox is off (--sandbox=off)\n", done.stderr)

    def test_links_of_another_user_grant_root_no_access(self):
        """A user's link beside the model leads to a file of root."""
        link = self.path("models", "link.safetensors")
        os.symlink(self.path("secret"), link)
        os.chown(link, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
        action = f"open:{link}"
        done = self.run_as(None, self.binary, "info", "--offline", self.source, actions=[action])
        self.assertEqual(outcomes(done.stderr), {action: "Permission denied"})


class Confinement(MountTestCase):
    def status(self, point):
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            return json.load(file)["sandbox"]


@is_confined
class Network(Confinement):
    """A source has a fetcher only if a part of it may be at a URL; the process that reads it never has the network."""

    def check(self, rows):
        for path, has_network in rows:
            with self.subTest(path=path):
                point = self.mount(self.path(path))
                self.assertEqual((self.status(point)["network"], self.status(point)["fetcher"]), (False, has_network))
                self.unmount(point)

    def linked(self, path):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        return stores.linked_carton(self.path(path), {"far": (b"far", ["https://localhost:1/far"])})

    def test_files(self):
        self.sample("model.safetensors")
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"
        with zipfile.ZipFile(self.path("arrays.npz"), "w") as arrays:
            arrays.writestr("a.npy", b"\x93NUMPY\1\0\x76\0" + header + bytes(8))
        archives.write_carton(self.path("whole.carton"), {"model/a": b"a"})
        # A file that is inside although there is a link for it.
        archives.write_carton(self.path("inside.carton"), {"model/a": b"a"}, linked={"model/a": b"a"},
                              urls={"model/a": ["https://localhost:1/a"]})
        self.linked("far.carton")
        self.check([("model.safetensors", False), ("arrays.npz", False), ("whole.carton", False), ("inside.carton", False),
                    ("far.carton", True)])

    def test_directories(self):
        for name in ("one/model.safetensors", "two/a.safetensors", "two/b.safetensors"):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            self.sample(name)
        archives.write_carton_directory(self.path("unpacked"), {"model/a": b"a"})
        self.linked("carton/far.carton")
        self.check([("one", False), ("unpacked", False), ("two", True), ("carton", True)])

    def test_several_sources(self):
        near, far = self.sample("model.safetensors"), self.linked("far.carton")
        for sources, has_network in (((near, self.sample("other.safetensors")), False), ((near, far), True)):
            point = self.mount(*sources)
            self.assertEqual((self.status(point)["network"], self.status(point)["fetcher"]), (False, has_network))
            self.unmount(point)

    def test_environment_has_no_logins(self):
        near, far = self.sample("model.safetensors"), self.linked("far.carton")
        for source in (near, far):
            with unittest.mock.patch.dict(os.environ, HF_TOKEN="hf_secret", AWS_SECRET_ACCESS_KEY="secret-key"):
                point = self.mount(source)
            with open(f"/proc/{self.server(point)}/environ", "rb") as file:
                environment = file.read()
            self.assertEqual([text in environment for text in (b"hf_secret", b"secret-key")], [False, False])
            self.unmount(point)

    def test_links_of_a_nested_container_are_found(self):
        with zipfile.ZipFile(self.path("all.zip"), "w") as archive:
            archive.write(self.linked("far.carton"), "inner/far.carton")
        with tarfile.open(self.path("whole.tar"), "w") as archive:
            archive.add(self.sample("model.safetensors"), "model.safetensors")
        self.check([("all.zip", True), ("whole.tar", False)])


@is_confined
class Confined(Confinement):

    def test_kernel_and_status_report_the_active_layers(self):
        for argv in ((), ("--offline",)):
            point = self.mount(*argv, self.sample())
            sandbox = self.status(point)
            self.assertEqual({name: sandbox[name] for name in ("active", "no_new_privs", "capabilities", "seccomp", "network")},
                             {"active": True, "no_new_privs": True, "capabilities": "none", "seccomp": True, "network": False})
            kernel = status_of(self.server(point))
            self.assertEqual((kernel["NoNewPrivs"], kernel["Seccomp"]), ("1", "2"))
            sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"] + (["CapBnd"] if os.geteuid() == 0 else [])
            self.assertEqual({int(kernel[name], 16) for name in sets}, {0})
            self.unmount(point)

    def test_every_thread_is_confined(self):
        point = self.mount(self.sample())
        server = self.server(point)
        for task in os.listdir(f"/proc/{server}/task"):
            kernel = status_of(f"{server}/task/{task}")
            self.assertEqual((kernel["NoNewPrivs"], kernel["Seccomp"], int(kernel["CapEff"], 16)), ("1", "2", 0))
        self.unmount(point)

    def test_sandbox_off_is_reported(self):
        point = self.mount("-o", "sandbox=off", self.sample())
        self.assertEqual((self.status(point)["active"], self.status(point)["reason"]), (False, "--sandbox=off"))
        with open(os.path.join(point, ".weightfs", "log")) as file:
            self.assertIn("warning: the sandbox is off", file.read())
        self.assertEqual(status_of(self.server(point))["Seccomp"], "0")
        self.unmount(point)

    def test_invalid_sandbox_value_is_refused(self):
        done = run("info", "--sandbox", "maybe", self.sample())
        self.assertEqual(done.returncode, 2)
        self.assertIn('"maybe" is not a switch', done.stderr)

    def test_root_reads_a_source_of_a_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can read the files of other users")
        os.makedirs(self.path("home"))
        self.sample("home/model.safetensors")
        for name, mode in (("home/model.safetensors", 0o600), ("home", 0o700)):
            os.chmod(self.path(name), mode)
            os.chown(self.path(name), NOBODY.pw_uid, NOBODY.pw_gid)
        point = self.mount(self.path("home", "model.safetensors"))
        self.assertTrue(os.listdir(os.path.join(point, "tensors")))
        self.assertEqual(self.status(point)["capabilities"], ["dac_read_search"])
        self.unmount(point)

    def test_temporary_files_are_opened_without_the_cache(self):
        source = self.sample("model.zip-member.safetensors")
        with zipfile.ZipFile(self.path("m.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(source, "model.safetensors")
            archive.writestr("large.bin", bytes(200_000))
        point = self.mount("--no-cache", self.path("m.zip"))
        with open(os.path.join(point, "files", "large.bin"), "rb") as file:
            self.assertEqual(file.read(), bytes(200_000))
        self.unmount(point)
        self.assertFalse(os.path.exists(self.path("cache")))

    def test_cache_is_writable(self):
        with zipfile.ZipFile(self.path("m.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(self.sample("s.safetensors"), "model.safetensors")
            archive.writestr("large.bin", bytes(200_000))
        done = subprocess.run([WEIGHTFS, "cat", self.path("m.zip"), "files/large.bin"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.stdout, done.stderr), (bytes(200_000), b""))
        self.assertIn("1", run("cache", "du").stdout)

    def test_link_out_of_the_source_is_readable_if_permitted(self):
        os.makedirs(self.path("elsewhere"))
        os.makedirs(self.path("models"))
        os.symlink(self.sample("elsewhere/model.safetensors"), self.path("models", "model.safetensors"))
        for source in (self.path("models"), self.path("models", "model.safetensors")):
            self.assertEqual(run("info", source).returncode, 0)

    def test_blobs_of_a_hub_snapshot_are_readable(self):
        for name in ("blobs", "snapshots/1"):
            os.makedirs(self.path("models--a", name))
        os.rename(self.sample("blob"), self.path("models--a", "blobs", "ab"))
        os.symlink("../../blobs/ab", self.path("models--a", "snapshots", "1", "model.safetensors"))
        for source in (self.path("models--a", "snapshots", "1"), self.path("models--a", "snapshots", "1", "model.safetensors")):
            self.assertEqual(run("verify", source).returncode, 0)

    def test_name_resolution_and_downloads_work(self):
        import hashlib
        data = self.read(self.sample("far.safetensors"))
        server = Server(self, correct(data))
        digest = hashlib.sha256(data).hexdigest()
        with zipfile.ZipFile(self.path("m.carton"), "w") as archive:
            toml = 'spec_version = 1\n\n[runner]\nrunner_name = "noop"\nrequired_framework_version = ">=0"\nrunner_compat_version = 1\n'
            links = f'version = 1\n\n[urls]\n{digest} = ["http://localhost:{server.port}/far.safetensors"]\n'
            archive.writestr("carton.toml", toml)
            archive.writestr("LINKS", links)
            archive.writestr("MANIFEST",
                             f"carton.toml={hashlib.sha256(toml.encode()).hexdigest()}\nmodel/far.safetensors={digest}\n")
        done = subprocess.run([WEIGHTFS, "cat", "--allow-private-urls",
                               self.path("m.carton"), "files/model/far.safetensors"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.stdout, done.stderr), (data, b""))


@is_confined
class Broker(MountTestCase):
    def brokers(self):
        names = {}
        for pid in processes_of(self.tmp):
            with open(f"/proc/{pid}/comm") as file:
                names[pid] = file.read().strip()
        return [pid for pid, name in names.items() if name == "weightfs-broker"]

    def test_broker_exits_with_its_server(self):
        point = self.mount(self.sample())
        broker, = self.brokers()
        os.kill(self.server(point), signal.SIGKILL)
        until(lambda: has_ended(broker), "it stays")
        self.assertEqual(run("umount", point).returncode, 0)

    def test_broker_does_not_keep_the_device_or_caller_open(self):
        point = self.mount(self.sample())
        broker, = self.brokers()
        targets = [os.readlink(f"/proc/{broker}/fd/{number}") for number in os.listdir(f"/proc/{broker}/fd")]
        # It removes the mount point, which it has made, from this directory.
        self.assertEqual([target for target in targets if target != "/dev/null" and not target.startswith("socket:")],
                         [os.path.dirname(point)])
        self.assertEqual(len(targets), 5)
        self.unmount(point)

    def test_server_exits_after_its_broker_died(self):
        point = self.mount(self.sample())
        server = self.server(point)
        os.kill(*self.brokers(), signal.SIGKILL)
        os.kill(server, signal.SIGTERM)
        until(lambda: has_ended(server), "it does not end")
        self.force_unmount(point)
        os.rmdir(point)

    @unittest.skipUnless(shutil.which("fusermount3"), "no fusermount3 here")
    def test_broker_unmounts_when_the_server_dies(self):
        point = self.mount("--auto-unmount", self.sample())
        os.kill(self.server(point), signal.SIGKILL)
        until(lambda: not is_mounted(point), "it stays mounted")
        os.rmdir(point)


if __name__ == "__main__":
    unittest.main()
