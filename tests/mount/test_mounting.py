"""Mounting and unmounting: several sources, directories, usage errors, signals, other users."""
import errno
import fcntl
import glob
import json
import mmap
import random
import select
import threading

from mounting import (LIMIT_S, NOBODY, WEIGHTFS, MountTestCase, Tensor, UsersTestCase, as_nobody, containers, descriptors_of,
                      only_root_sees, halt, has_ended, is_mounted, only_root_mounts, numbers, os, processes_of, run, sample_tensors,
                      shutil, signal, subprocess, sys, unittest, until)


class Lifecycle(MountTestCase):
    def test_missing_mount_point_is_created_and_removed(self):
        mnt = self.mount(self.sample())
        self.assertTrue(os.path.ismount(mnt))
        server = self.server(mnt)
        self.unmount(mnt)
        self.assertFalse(os.path.exists(mnt))
        self.assertTrue(has_ended(server), "umount returns when the server has ended")

    def test_existing_mount_point_is_not_removed(self):
        os.mkdir(self.path("mnt"))
        self.unmount(self.mount(self.sample()))
        self.assertEqual(os.listdir(self.path("mnt")), [])

    def test_signals_unmount_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, mnt = self.foreground(self.sample())
            process.send_signal(number)
            self.assertEqual(process.wait(LIMIT_S), 0)
            self.assertFalse(os.path.exists(mnt))

    def test_plain_umount_ends_the_server(self):
        process, mnt = self.foreground(self.sample())
        # A test that lists all mounts may just read a file of this one.
        until(lambda: subprocess.run(["umount", mnt], stderr=subprocess.DEVNULL).returncode == 0, "umount fails")
        self.assertEqual(process.wait(LIMIT_S), 0)
        self.assertFalse(os.path.exists(mnt))

    def assert_others_are_spared(self, process, mnt):
        """Stops a server, detaches its mount, mounts others until one has the same id, and lets the server end."""
        def mount_id(point):
            with open("/proc/self/mountinfo") as table:
                return next(line.split()[0] for line in table if line.split()[4] == point)
        id_of_first = mount_id(mnt)
        halt(process.pid)
        subprocess.run(["umount", "-l", mnt], check=True)
        others = []
        while id_of_first not in map(mount_id, others):
            if len(others) == 20:
                self.skipTest("the kernel did not reuse the mount id")
            others.append(self.mount(self.sample(), at=f"other{len(others)}"))
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=LIMIT_S)
        self.assertEqual([point for point in others if not is_mounted(point)], [])

    def test_ended_server_spares_a_mount_that_reuses_its_mount_id(self):
        process, mnt = self.foreground(self.sample())
        self.assert_others_are_spared(process, mnt)

    def test_server_that_ends_before_its_mount_is_usable_spares_other_mounts(self):
        mnt = self.path("mnt")
        process = subprocess.Popen([WEIGHTFS, "mount", "-f", self.sample(), mnt], stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.addCleanup(self.force_unmount, mnt)
        while not is_mounted(mnt):  # without a request to the server, and at once
            self.assertIsNone(process.poll())
        self.assert_others_are_spared(process, mnt)

    def test_busy_mount_is_not_unmounted(self):
        mnt = self.mount(self.sample())
        with open(f"{mnt}/tensors/bias", "rb") as file:
            done = run("umount", mnt)
            self.assertEqual(done.returncode, 6)
            self.assertIn("busy", done.stderr)
            self.assertEqual(file.read(), numbers("i", 4))
        self.unmount(mnt)

    def test_mount_point_of_a_killed_server_can_be_reused(self):
        source = self.sample()
        mnt = self.mount(source)
        server = self.server(mnt)
        os.kill(server, signal.SIGKILL)
        while not has_ended(server):
            pass
        done = run("mount", source, mnt)
        self.assertEqual((done.returncode, done.stderr), (0, f"weightfs: {mnt}: removed a mount whose server died\n"))
        self.addCleanup(self.force_unmount, mnt)
        self.assertEqual(self.read("mnt", "tensors", "bias"), numbers("i", 4))
        with open("/proc/self/mountinfo") as file:
            self.assertEqual(sum(f" {mnt} " in line for line in file), 1, "the dead mount is gone, not covered")
        self.unmount(mnt)

    def test_second_mount_at_the_same_path_is_refused(self):
        mnt = self.mount(self.sample())
        done = run("mount", self.path("model.safetensors"), mnt)
        self.assertEqual(done.returncode, 6)
        self.assertIn("already mounted there", done.stderr)

    def test_one_of_two_concurrent_mounts_succeeds(self):
        source = self.sample()
        os.mkdir(self.path("mnt"))
        for _ in range(8):
            both = [subprocess.Popen([WEIGHTFS, "mount", source, self.path("mnt")], stderr=subprocess.DEVNULL) for _ in "ab"]
            self.addCleanup(self.force_unmount, self.path("mnt"))
            self.assertEqual(sorted(each.wait(LIMIT_S) for each in both), [0, 6])
            self.unmount(self.path("mnt"))
            self.assertFalse(is_mounted(self.path("mnt")), "another mount is below it")

    @only_root_sees
    def test_concurrent_mount_waits_for_the_first(self):
        source, point = self.sample(), self.path("mnt")
        os.mkdir(point)
        claim = os.open(point, os.O_RDONLY)
        fcntl.flock(claim, fcntl.LOCK_EX)
        waiting = subprocess.Popen([WEIGHTFS, "mount", "-f", source, point], stderr=subprocess.PIPE, text=True)
        self.addCleanup(waiting.stderr.close)
        self.addCleanup(waiting.wait)
        self.addCleanup(waiting.kill)
        mounted = subprocess.Popen([WEIGHTFS, "mount", "-f", source, point], stderr=subprocess.PIPE, text=True)
        self.addCleanup(mounted.stderr.close)
        self.addCleanup(mounted.wait)
        self.addCleanup(mounted.kill)
        # A broker, a child process, does. Nobody waits for a claim for more than 5 s.
        until(lambda: any(point in map(os.path.realpath, glob.glob(f"/proc/{pid}/fd/*")) for pid in processes_of(self.tmp)),
              "none comes to the mount point")
        self.assertFalse(is_mounted(point))
        os.close(claim)
        until(lambda: waiting.poll() is not None or mounted.poll() is not None, "both are mounted, or none")
        ended, other = (waiting, mounted) if waiting.poll() is not None else (mounted, waiting)
        self.assertEqual((ended.returncode, ended.stderr.read()), (6, f"weightfs: {point}: weightfs is already mounted there\n"))
        until(lambda: is_mounted(point), "the other one is not mounted")
        self.unmount(point)
        self.assertEqual(other.wait(LIMIT_S), 0)

    def test_foreign_lock_does_not_prevent_mounting(self):
        os.mkdir(self.path("mnt"))
        claim = os.open(self.path("mnt"), os.O_RDONLY)
        self.addCleanup(os.close, claim)
        fcntl.flock(claim, fcntl.LOCK_EX)
        self.unmount(self.mount(self.sample()))

    @unittest.skipUnless(os.getuid() == 0, "only root can make an automount point")
    def test_mounting_on_an_automount_point_does_not_trigger_it(self):
        # Like mount(8) started by systemd: an automount point, for which processes of another group wait.
        point, (read_end, write_end) = self.path("mnt"), os.pipe()
        os.mkdir(point)
        automount = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
        self.addCleanup(automount.wait)
        self.addCleanup(automount.kill)
        options = f"fd={write_end},pgrp={automount.pid},minproto=5,maxproto=5,direct"
        done = subprocess.run(["mount", "-i", "-t", "autofs", "-o", options, "none", point], pass_fds=[write_end],
                              capture_output=True, text=True)
        os.close(write_end)
        self.addCleanup(os.close, read_end)
        if done.returncode != 0:
            self.skipTest(f"no autofs here: {done.stderr}")
        self.addCleanup(self.force_unmount, point)
        server = subprocess.Popen([WEIGHTFS, "mount", "-f", self.sample(), point], stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        readable = select.select([server.stderr, read_end], [], [], LIMIT_S)[0]
        self.assertEqual(readable, [server.stderr], "the automount point was triggered")
        self.assertIn("mounted", server.stderr.readline())
        self.unmount(point)
        self.assertEqual(server.wait(LIMIT_S), 0)

    def test_command_killed_while_reading_leaves_nothing(self):
        containers.WRITERS["safetensors"](self.path("big.safetensors"), containers.ManyNames(300_000))
        process = subprocess.Popen([WEIGHTFS, "mount", "-f", self.path("big.safetensors"), self.path("mnt")],
                                   stderr=subprocess.DEVNULL)
        process.terminate()
        process.wait(LIMIT_S)
        self.assertFalse(os.path.exists(self.path("mnt")))

    def test_closed_standard_descriptors_are_harmless(self):
        source = self.sample()
        for closed in ("<&- >&- 2>&-", "2>&-", "<&- >&-"):
            mnt = self.path("mnt")
            done = subprocess.run(["sh", "-c", f'exec "$0" mount "$1" "$2" {closed}', WEIGHTFS, source, mnt], timeout=LIMIT_S)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(self.read("mnt", "tensors", "bias"), numbers("i", 4))
            self.unmount(mnt)

    def test_server_keeps_no_directory_busy(self):
        mnt = self.mount(self.sample(), cwd=self.tmp)
        self.assertEqual(os.readlink(f"/proc/{self.server(mnt)}/cwd"), "/")

    def test_mount_point_can_be_a_link(self):
        os.makedirs(self.path("real"))
        os.symlink("real", self.path("link"))
        mnt = self.mount(self.sample(), at="link")
        self.addCleanup(self.force_unmount, self.path("real"))
        self.assertEqual(self.read("real", "tensors", "bias"), numbers("i", 4))
        self.unmount(mnt)
        self.assertFalse(os.path.ismount(self.path("real")))

    @only_root_mounts
    def test_umount_refuses_other_file_systems(self):
        os.mkdir(self.path("tmpfs"))
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("tmpfs")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("tmpfs")], check=True)
        done = run("umount", self.path("tmpfs"))
        self.assertEqual(done.returncode, 6)
        self.assertIn("weightfs is not mounted there", done.stderr)
        self.assertTrue(os.path.ismount(self.path("tmpfs")))

    def test_brackets_in_file_names_are_literal(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.tmp)
        self.sample("[a,b]")
        mnt = self.mount("[a,b]", at="[mnt]")
        self.assertTrue(mnt.endswith("/[mnt]"))
        self.assertEqual(self.read("[mnt]", "tensors", "bias"), numbers("i", 4))
        self.unmount("[mnt]")

    def test_dot_dot_after_a_link_is_relative_to_its_target(self):
        os.makedirs(self.path("a", "b"))
        os.mkdir(self.path("c"))
        os.symlink("../a/b", self.path("c", "link"))
        self.sample("a/model.safetensors")
        self.assertEqual(run("ls", self.path("c/link/../model.safetensors"), "tensors/encoder").stdout, "weight\n")

    def test_proc_mounts_shows_the_source(self):
        source = self.sample("a, b\\c.safetensors")
        mnt = self.mount(source)
        with open("/proc/self/mountinfo") as file:
            line = next(line for line in file if f" {mnt} " in line)
        kind, shown, _ = line.split(" - ")[1].split(" ", 2)
        self.assertEqual((kind, shown), ("fuse.weightfs", source.replace("\\", "\\134").replace(" ", "\\040")))
        self.assertIn("ro,nosuid,nodev", line)


class InvalidArguments(MountTestCase):
    """Each error is one line on standard error and a specific status; nothing is left behind."""

    def refused(self, status, *argv):
        done = run(*argv)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("weightfs: "))
        self.assertFalse(os.path.exists(self.path("mnt")), "a created mount point remains after a failure")
        return done.stderr

    def test_missing_source_fails(self):
        self.assertIn("No such file", self.refused(3, "mount", self.path("absent"), self.path("mnt")))

    def test_unsupported_file_is_refused(self):
        notes = self.write("notes.txt", b"just some text\n" * 10)
        text = self.refused(4, "mount", notes, self.path("mnt"))
        self.assertEqual(text, f'weightfs: {notes}: text: "just some text"\n')
        text = self.refused(4, "mount", "--verbose", notes, self.path("mnt"))
        for tried in ('notes.txt: text: "just some text" (150 B); tried ', "gguf", "rten", "safetensors", "bintensors"):
            self.assertIn(tried, text)

    # semantics 1.5
    def test_probable_source_is_named(self):
        for command in (["info"], ["ls"], ["mount"], ["verify"], ["export", "--to", "npz"]):
            for source, hint in (("htps://h.invalid/m.gguf", "https://h.invalid/m.gguf"), ("org/repo", "hf://org/repo"),
                                 ("https://huggingface.co/org/repo", "hf://org/repo")):
                last = [self.path("mnt")] if command[0] in ("mount", "export") else []
                self.assertIn(f"did you mean {hint}?", self.refused(3, *command, source, *last))

    def test_empty_file_is_refused(self):
        self.refused(4, "mount", self.write("empty", b""), self.path("mnt"))

    def test_corrupt_model_is_refused(self):
        self.sample()
        broken = self.write("broken.safetensors", self.read("model.safetensors")[:100])
        self.assertIn("broken.safetensors: ", self.refused(5, "mount", broken, self.path("mnt")))

    def test_wrong_format_is_refused(self):
        self.refused(5, "mount", "--format", "gguf", self.sample(), self.path("mnt"))
        self.assertIn("known formats: gguf, rten",
                      self.refused(2, "mount", "--format", "checkpoint", self.sample(), self.path("mnt")))

    def test_empty_names_are_refused(self):
        for argv in (["ls", ""], ["cat", "", "x"], ["info", ""], ["mount", "", self.path("mnt")], ["mount", self.sample(), ""],
                     ["umount", ""]):
            self.assertIn(run(*argv).returncode, (3, 6), argv)
            self.assertEqual(len(run(*argv).stderr.splitlines()), 1, argv)

    def test_unknown_command_lists_known_ones(self):
        self.assertIn('unknown command "frob"; known commands: mount, umount, mounts, refresh, serve, open, ls, cat, info',
                      self.refused(2, "frob"))
        self.assertIn("missing SOURCE", self.refused(2, "mount"))

    def test_mistyped_command_gets_a_suggestion(self):
        self.assertIn('unknown command "moutn"; did you mean mount', self.refused(2, "moutn", self.sample(), self.path("mnt")))
        self.assertIn('unknown command "cache lss"; did you mean ls?', self.refused(2, "cache", "lss"))

    def test_mistyped_option_gets_a_suggestion(self):
        for argv, message in ((["mount", "--cache-siez", "5G", self.sample(),
                                self.path("mnt")], "--cache-siez: unknown option; did you mean --cache-size?"),
                              (["mount", "--ofline=yes",
                                self.sample(), self.path("mnt")], "--ofline: unknown option; did you mean --offline?"), ([
                                    "cache", "ls", "--jsno"
                                ], "--jsno: unknown option; did you mean --json? (see weightfs cache ls --help)"),
                              (["ls", "--nonsense", self.sample()], "--nonsense: unknown option (see weightfs ls --help)")):
            self.assertIn(message, self.refused(2, *argv))

    def test_missing_and_extra_arguments_are_reported(self):
        for argv, message in ((["cache"], "cache: missing command: path, ls, "), ([
                "-v"
        ], "-v: an option of commands"), (["mount", "-x", "a", "b"], "-x: unknown option (see weightfs mount --help)"), ([
                "info"
        ], "info: missing SOURCE"), (["cache", "pin"], "cache pin: missing DIGEST"), ([
                "mount", "--umask"
        ], "--umask needs a value: MASK"), (["ls", "a", "b", "b c"], "too many arguments: b c (see weightfs ls --help)"), ([
                "ls", "a", "b", "b" * 100000
        ], "too many arguments: bbb"), (["cache", "rm", "--all",
                                         "abcdef"], "--all and DIGEST or NAME exclude each other (see weightfs cache rm --help)")):
            self.assertIn(f"weightfs: {message}", self.refused(2, *argv))
        with open("/dev/full", "w") as full:
            self.assertEqual(
                subprocess.run([WEIGHTFS, "--help"], stdout=full, stderr=subprocess.DEVNULL, check=False).returncode, 1)

    def test_invalid_option_value_is_reported(self):
        self.refused(2, "mount", "--nonsense", self.sample(), self.path("mnt"))
        self.assertIn('unknown mount option "nonsense"', self.refused(2, "mount", "-o", "nonsense", self.sample(),
                                                                      self.path("mnt")))
        self.assertIn('unknown mount option "b"', self.refused(2, "mount", "-o", "all,b", "-o", "c", self.sample(),
                                                               self.path("mnt")))
        for size in ("", "x", "5KBiB", "-1", "99999999999T", "1.5G"):
            self.refused(2, "mount", "--cache-size", size, self.sample(), self.path("mnt"))
            self.refused(2, "mount", "-o", f"cache_size={size}", self.sample(), self.path("mnt"))
        self.refused(2, "mount")
        self.refused(2, "nonsense")

    def test_file_as_mount_point_is_refused(self):
        self.assertIn("not a directory", self.refused(6, "mount", self.sample(), self.path("model.safetensors")))

    def test_mount_point_in_a_missing_directory_is_refused(self):
        self.refused(6, "mount", self.sample(), self.path("absent", "mnt"))

    def test_umount_of_a_directory_without_a_mount_fails(self):
        self.refused(6, "umount", self.tmp)
        self.refused(6, "umount", self.path("absent"))

    def test_directory_without_a_model_is_refused(self):
        os.mkdir(self.path("empty"))
        self.assertIn("no supported model in this directory", self.refused(4, "mount", self.path("empty"), self.path("mnt")))

    def test_pipe_as_source_is_refused(self):
        os.mkfifo(self.path("pipe"))
        self.assertIn("not a regular file", self.refused(1, "mount", self.path("pipe"), self.path("mnt")))


class Directories(MountTestCase):
    def test_each_of_several_sources_is_a_directory(self):
        os.mkdir(self.path("other"))
        sources = [self.sample(), self.sample("other/model.safetensors"), self.sample("m.gguf", format="gguf")]
        mnt = self.mount(*sources)
        self.assertEqual(sorted(os.listdir(mnt)), ["m.gguf", "model.safetensors", "model.safetensors~2"])
        self.assertEqual(self.read("mnt", "m.gguf", "tensors", "bias"), numbers("i", 4))
        self.assertEqual(self.read("mnt", "model.safetensors~2", "tensors", "bias"), numbers("i", 4))

    def test_each_of_several_sources_must_be_a_model(self):
        done = run("mount", self.sample(), self.write("notes.txt", b"text"), self.path("mnt"))
        self.assertEqual(done.returncode, 4)
        self.assertIn("notes.txt", done.stderr)

    def make_directory(self):
        os.makedirs(self.path("models", "sub"))
        self.sample("models/a.safetensors")
        self.sample("models/sub/b.gguf", format="gguf")
        self.write("models/README.md", b"# models\n")
        self.write("models/broken.gguf", b"GGUF\x03\0\0\0")
        os.symlink("..", self.path("models", "sub", "loop"))
        os.symlink("a.safetensors", self.path("models", "link.safetensors"))
        return self.path("models")

    def test_directory_shows_models_under_their_file_names(self):
        mnt = self.mount(self.make_directory())
        self.assertEqual(sorted(os.listdir(mnt)), ["a.safetensors", "broken.gguf", "link.safetensors", "sub"])
        self.assertEqual(os.listdir(f"{mnt}/sub"), ["b.gguf"], "a link to a directory above is not followed")
        self.assertEqual(self.read("mnt", "link.safetensors", "tensors", "bias"), numbers("i", 4))
        self.assertEqual(self.read("mnt", "sub", "b.gguf", "tensors", "bias"), numbers("i", 4))

    def test_corrupt_model_fails_only_when_entered(self):
        process, mnt = self.foreground(self.make_directory())
        self.assertTrue(os.path.isdir(f"{mnt}/broken.gguf"))
        for _ in range(3):
            with self.assertRaises(OSError) as raised:
                os.listdir(f"{mnt}/broken.gguf")
            self.assertEqual(raised.exception.errno, 5)
        self.assertEqual(self.read("mnt", "a.safetensors", "tensors", "bias"), numbers("i", 4))
        process.terminate()
        log = process.communicate(timeout=LIMIT_S)[1]
        self.assertEqual(len(log.splitlines()), 1, log)
        self.assertIn("broken.gguf", log)

    def test_mount_inside_its_source_does_not_show_itself(self):
        mnt = self.mount(self.make_directory(), at="models/mnt")
        self.assertNotIn("mnt", os.listdir(mnt))
        found = subprocess.run(["find", mnt, "-name", "bias"], capture_output=True, text=True).stdout
        self.assertEqual(len(found.splitlines()), 3)

    def test_mount_does_not_show_itself_through_another_path(self):
        os.symlink("models", self.path("other"))
        self.make_directory()
        self.mount(self.path("other"), at="models/mnt")
        self.mount(self.path("models"), at="models/second")
        for mnt in ("models/mnt", "models/second"):
            found = subprocess.run(["find", self.path(mnt), "-name", "bias"], capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(len(found.stdout.splitlines()), 3)
        for mnt in ("models/second", "models/mnt"):
            self.unmount(self.path(mnt))

    def test_removed_model_disappears_until_it_is_restored(self):
        mnt = self.mount(self.make_directory())
        os.rename(self.path("models", "a.safetensors"), self.path("away"))
        until(lambda: not os.path.exists(f"{mnt}/a.safetensors"), "it stays")
        for attempt in (lambda: os.stat(f"{mnt}/a.safetensors/tensors"), lambda: os.listdir(f"{mnt}/a.safetensors")):
            with self.assertRaises(FileNotFoundError):
                attempt()
        os.rename(self.path("away"), self.path("models", "a.safetensors"))
        until(lambda: os.path.exists(f"{mnt}/a.safetensors"), "it does not come back")
        self.assertEqual(self.read("mnt", "a.safetensors", "tensors", "bias"), numbers("i", 4))

    def test_models_have_their_own_modification_times(self):
        os.utime(os.path.join(self.make_directory(), "a.safetensors"), ns=(-1_500_000_000,) * 2)
        mnt = self.mount(self.path("models"))
        for path in ("a.safetensors", "a.safetensors/tensors/bias"):
            self.assertEqual(os.stat(f"{mnt}/{path}").st_mtime_ns, -1_500_000_000)

    def test_link_loop_beside_an_index_is_skipped(self):
        os.mkdir(self.path("model"))
        containers.write_safetensors_shards(self.path("model"), [sample_tensors()])
        os.symlink("loop", self.path("model", "loop"))
        mnt = self.mount(self.path("model"))
        self.assertEqual(len(os.listdir(f"{mnt}/files")), 2)

    def test_ls_and_info_continue_after_a_corrupt_model(self):
        self.sample(os.path.join(self.make_directory(), "z.safetensors"))
        listed = run("ls", "-R", self.path("models"))
        self.assertEqual(listed.returncode, 5)
        self.assertIn("z.safetensors/tensors/encoder:", listed.stdout)
        shown = run("info", "--json", self.path("models"))
        self.assertEqual(shown.returncode, 5)
        self.assertEqual(len(json.loads(shown.stdout)), 5)

    def test_all_shows_other_files(self):
        mnt = self.mount("--all", self.make_directory())
        self.assertIn("README.md", os.listdir(mnt))
        self.assertEqual(self.read("mnt", "README.md"), b"# models\n")

    def test_shards_of_one_model_are_one_directory(self):
        os.mkdir(self.path("models"))
        containers.write_gguf_shards(self.path("models", "m"), [sample_tensors()[:2], sample_tensors()[2:]])
        mnt = self.mount(self.path("models"))
        self.assertEqual(len(json.loads(self.read("mnt", "tensors.json"))["tensors"]), 5)
        self.sample("models/other.gguf", format="gguf")
        self.assertEqual(os.listdir(self.mount(self.path("models"), at="several")), ["m-00001-of-00002.gguf", "other.gguf"])

    def test_corrupt_first_shard_does_not_hide_the_model(self):
        os.mkdir(self.path("models"))
        containers.write_gguf_shards(self.path("models", "m"), [sample_tensors()[:2], sample_tensors()[2:]])
        self.write("models/m-00001-of-00002.gguf", b"GGUF\x03\0\0\0")
        mnt = self.mount(self.path("models"))
        self.assertEqual(sorted(os.listdir(mnt)), ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"])
        self.assertEqual(len(json.loads(self.read("mnt", "m-00002-of-00002.gguf", "tensors.json"))["tensors"]), 3)

    def test_files_only_named_like_shards_are_separate_models(self):
        os.mkdir(self.path("models"))
        for number in (1, 2):
            self.sample(f"models/m-0000{number}-of-00002.gguf", format="gguf")
        self.assertEqual(len(os.listdir(self.mount(self.path("models")))), 2)

    def test_ten_thousand_models_mount_and_are_read_when_entered(self):
        os.mkdir(self.path("models"))
        one = self.sample("models/0000.safetensors")
        for i in range(1, 10_000):
            shutil.copyfile(one, self.path("models", f"{i:04d}.safetensors"))
        mnt = self.mount(self.path("models"))
        self.assertEqual(len(os.listdir(mnt)), 10_000)
        self.assertLess(descriptors_of(self.server(mnt)), 50, "no model is open before it is entered")
        for i in range(0, 10_000, 500):
            self.assertEqual(self.read("mnt", f"{i:04d}.safetensors", "tensors", "bias"), numbers("i", 4))


class ChangedContainer(MountTestCase):
    """semantics 6: read data stays valid, reads of other data fail with EIO; no signal, no mix of two versions."""

    SIZE = 8 << 20

    def setUp(self):
        super().setUp()
        self.source = self.sample(tensors=[Tensor("w", "uint8", (self.SIZE,), b"1" * self.SIZE)])
        os.utime(self.source, (1, 1))
        self.process, self.mnt = self.foreground(self.source)
        with open(f"{self.mnt}/tensors/w", "rb") as file:
            self.assertEqual(file.read(4096), b"1" * 4096)

    def expect_error_beyond_cached_pages(self):
        with open(f"{self.mnt}/tensors/w", "rb") as file:
            file.seek(self.SIZE // 2)
            with self.assertRaises(OSError) as raised:
                file.read(4096)
            self.assertEqual(raised.exception.errno, 5)
            file.seek(0)
            self.assertEqual(file.read(4096), b"1" * 4096)
        self.assertIsNone(self.process.poll(), "the server is still running")
        os.listdir(self.mnt)
        self.process.terminate()
        log = self.process.communicate(timeout=LIMIT_S)[1]
        self.assertEqual(len([line for line in log.splitlines() if "changed or replaced" in line]), 1, log)

    def test_truncated_container_is_an_io_error(self):
        os.truncate(self.source, 4096)
        self.expect_error_beyond_cached_pages()

    def test_container_rewritten_in_place_is_an_io_error(self):
        with open(self.source, "r+b") as file:
            file.seek(1 << 20)
            file.write(b"2" * (7 << 20))
        self.expect_error_beyond_cached_pages()

    def test_replaced_container_keeps_the_open_file(self):
        shutil.copyfile(self.source, self.source + ".new")
        os.rename(self.source + ".new", self.source)
        self.expect_error_beyond_cached_pages()

    def pages_through_a_mapping(self, *offsets):
        """Maps the tensor in a separate process and prints the byte at each offset: (exit status, output)."""
        script = ("import mmap, resource, sys; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); file = open(sys.argv[1], 'rb'); "
                  "mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); "
                  "[print(chr(mapped[int(offset)]), flush=True) for offset in sys.argv[2:]]")
        done = subprocess.run([sys.executable, "-c", script, f"{self.mnt}/tensors/w", *map(str, offsets)], capture_output=True,
                              text=True, timeout=LIMIT_S)
        return done.returncode, done.stdout

    def test_mapping_of_a_cut_container_reads_cached_pages_and_gets_sigbus_for_others(self):
        os.truncate(self.source, 4096)
        self.assertEqual(self.pages_through_a_mapping(0, 4095), (0, "1\n1\n"))
        self.assertEqual(self.pages_through_a_mapping(0, self.SIZE // 2), (-signal.SIGBUS, "1\n"))
        self.assertIsNone(self.process.poll(), "the server is still running")

    def test_read_across_the_cached_pages_of_a_cut_container_is_short_and_the_next_fails(self):
        os.truncate(self.source, 4096)
        file = os.open(f"{self.mnt}/tensors/w", os.O_RDONLY)
        self.addCleanup(os.close, file)
        data = os.read(file, self.SIZE)
        self.assertTrue(4096 <= len(data) < self.SIZE, len(data))
        self.assertEqual(data, b"1" * len(data))
        for offset in (len(data), self.SIZE // 2, self.SIZE - 4096):
            with self.assertRaises(OSError) as raised:
                os.pread(file, 4096, offset)
            self.assertEqual(raised.exception.errno, errno.EIO)
        self.assertEqual(os.pread(file, len(data), 0), data)

    def check_readers(self, *changes):
        """By read and splice, through a mapping in write(2), and from several threads: right bytes, or errors after a change."""
        wrong, reads, stop, changed = [], [0] * 8, threading.Event(), threading.Event()

        def read(number):
            order = random.Random(number)
            reader, writer = os.pipe()
            while not stop.is_set():
                file = None
                try:
                    offset, file = order.randrange(self.SIZE >> 12) << 12, os.open(f"{self.mnt}/tensors/w", os.O_RDONLY)
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                    kind = order.choice(("read", "splice", "map"))
                    if kind == "read":
                        got = os.pread(file, 1 << 20, offset)
                    elif kind == "splice":
                        got = os.read(reader, os.splice(file, writer, 1 << 16, offset_src=offset))
                    else:
                        with mmap.mmap(file, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping, memoryview(mapping) as view:
                            got = os.read(reader, os.write(writer, view[offset:offset + 4096]))
                    if got.strip(b"1"):
                        wrong.append((kind, offset))
                except OSError as error:
                    if not changed.is_set():
                        wrong.append(error)
                finally:
                    if file is not None:
                        os.close(file)
                reads[number] += 1
            os.close(reader)
            os.close(writer)

        threads = [threading.Thread(target=read, args=(number,)) for number in range(len(reads))]
        for thread in threads:
            thread.start()
        try:
            for change in (None, *changes):
                if change is not None:
                    changed.set()
                    change()
                had = list(reads)
                until(lambda: all(now > then + 5 for now, then in zip(reads, had)), "no reads")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def test_readers_get_right_bytes_or_errors_while_the_container_is_cut(self):
        self.check_readers(lambda: os.truncate(self.source, self.SIZE // 2), lambda: os.truncate(self.source, 4096))
        self.assertIsNone(self.process.poll(), "the server is still running")

    def test_readers_get_right_bytes_or_errors_while_the_container_is_rewritten(self):
        def rewrite():
            with open(self.source, "r+b") as file:
                file.seek(-self.SIZE, os.SEEK_END)
                file.write(b"2" * self.SIZE)
        self.check_readers(rewrite)
        self.assertIsNone(self.process.poll(), "the server is still running")

    def test_readers_get_right_bytes_or_errors_while_the_server_ends(self):
        self.check_readers(self.process.terminate)
        self.assertEqual(self.process.wait(LIMIT_S), 0)


class MappedContainer(ChangedContainer):
    """docs/design/reading.md: replies come from a mapping of a write-protected container, with the same results."""

    # Reads that are in progress while root writes may have the new bytes.
    test_readers_get_right_bytes_or_errors_while_the_container_is_rewritten = None

    def sample(self, *arguments, **options):
        source = super().sample(*arguments, **options)
        os.chmod(source, 0o444)
        return source

    def setUp(self):
        super().setUp()
        if os.getuid() != 0:
            self.skipTest("only root can write to a write-protected container")

    def bytes_copied(self):
        """The bytes of all read(2) calls of the server so far; a reply from a mapping needs none."""
        with open(f"/proc/{self.server(self.mnt)}/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("rchar:"))

    def read_all(self, advice=os.POSIX_FADV_NORMAL):
        file = os.open(f"{self.mnt}/tensors/w", os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, advice)
            data = b""
            while part := os.read(file, 1 << 20):
                data += part
            return data
        finally:
            os.close(file)

    def test_bytes_are_copied_from_a_mapping(self):
        before = self.bytes_copied()
        self.assertEqual(self.read_all(), b"1" * self.SIZE)
        self.assertLess(self.bytes_copied() - before, self.SIZE // 2)

    def test_writable_container_is_not_mapped(self):
        os.chmod(self.source, 0o644)
        before = self.bytes_copied()
        self.assertEqual(self.read_all(), b"1" * self.SIZE)
        self.assertGreater(self.bytes_copied() - before, self.SIZE // 2)


class Urls(MountTestCase):
    def test_file_url_is_a_path_that_does_not_exist(self):
        source = f"file://{self.sample()}"
        for argv in (["mount", source, self.path("mnt")], ["ls", source]):
            done = run(*argv)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(done.stderr, f"weightfs: {source}: not a path; did you mean {source.removeprefix('file://')}?\n")
        self.assertFalse(os.path.exists(self.path("mnt")))


class Concurrency(MountTestCase):
    def test_concurrent_readers_get_correct_bytes(self):
        block = numbers("i", 1 << 18)  # 1 MiB
        tensors = [Tensor(f"t{i}", "int32", (1 << 18,), block) for i in range(16)]
        mnt = self.mount(self.sample(tensors=tensors))
        wrong = []

        def read_all(start):
            for i in range(16):
                with open(f"{mnt}/tensors/t{(start + i) % 16}", "rb") as file:
                    if file.read() != block:
                        wrong.append(i)

        threads = [threading.Thread(target=read_all, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class OrdinaryUser(UsersTestCase):
    """Through fusermount3, as the user nobody."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("home"))
        os.chown(self.path("home"), NOBODY.pw_uid, NOBODY.pw_gid)
        self.point = self.path("home", "mnt")
        self.addCleanup(self.force_unmount, self.point)

    def test_user_mounts_reads_and_unmounts(self):
        done = as_nobody(self.binary, "mount", self.source, self.point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        shown = as_nobody("stat", "-c", "%u %A %s", f"{self.point}/tensors/bias")
        self.assertEqual(shown.stdout, f"{NOBODY.pw_uid} -r--r--r-- 16\n")
        self.assertEqual(as_nobody("cmp", "-n", "16", f"{self.point}/tensors/bias", f"{self.point}/tensors/bias").returncode, 0)
        with self.assertRaises(PermissionError, msg="another user, even root, is kept out"):
            os.listdir(self.point)
        done = as_nobody(self.binary, "umount", self.point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(os.path.exists(self.point))

    def test_fusermount_of_libfuse_2_is_used_where_it_is_alone(self):
        os.mkdir(self.path("bin"))
        shutil.copy(shutil.which("fusermount3"), self.path("bin", "fusermount"))
        os.chmod(self.path("bin", "fusermount"), 0o4755)
        alone = {"PATH": self.path("bin")}
        done = as_nobody(self.binary, "mount", "-o", "auto_unmount", self.source, self.point, env=alone)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(as_nobody("cat", f"{self.point}/tensors/bias").returncode, 0)
        self.assertIn(f"{self.source} {self.point} fuse.weightfs ro,nosuid,nodev", as_nobody("cat", "/proc/mounts").stdout)
        done = as_nobody(self.binary, "umount", self.point, env=alone)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertFalse(os.path.exists(self.point))
        os.chmod(self.path("bin", "fusermount"), 0o755)
        done = as_nobody(self.binary, "mount", self.source, self.point, env=alone)
        self.assertEqual((done.returncode, done.stderr),
                         (6, f"weightfs: {self.point}: cannot mount: mount failed: Operation not permitted\n"))

    def test_denied_mount_has_a_one_line_message(self):
        os.mkdir(self.path("roots"))
        mnt = self.mount(self.source)
        for argv in (["mount", self.source, self.path("roots")], ["umount", mnt]):
            done = as_nobody(self.binary, *argv)
            self.assertEqual(done.returncode, 6)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_user_cannot_mount_on_an_unwritable_directory(self):
        done = as_nobody(self.binary, "mount", self.source, self.path("mnt"))
        self.assertEqual(done.returncode, 6)
        self.assertIn("Permission denied", done.stderr)

    def test_denied_dev_fuse_has_a_one_line_message(self):
        os.chmod("/dev/fuse", 0o600)
        done = as_nobody(self.binary, "mount", self.source, self.point)
        self.assertEqual(done.returncode, 6)
        self.assertIn("/dev/fuse: Permission denied", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(os.path.exists(self.point))

    def test_user_cannot_mount_an_unreadable_source(self):
        os.chmod(self.source, 0o600)
        done = as_nobody(self.binary, "mount", self.source, self.point)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Permission denied", done.stderr)
        self.assertFalse(os.path.exists(self.point))
