"""Models in object stores, mounted from a double of Amazon S3 that verifies signatures, and from s3rver: the bytes, the requests
and the bytes that are transferred."""
import datetime
import errno
import json
import os
import resource
import signal
import subprocess
import unittest
import urllib.parse
import urllib.request

from fetching import FetchTestCase
from mounting import WEIGHTFS, run, until
from scripted_server import responds
from s3_server import KEY_ID, REGION, SECRET, TOKEN, Refused, S3Server, in_xml
from servers import ended_with_parent, listening_port, needs
from test_archives import noise
from test_urls import KIB, MIB, tensors
import containers
import npm_packages
import stores

S3RVER = "3.7.1"


class S3TestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        for name in list(os.environ):
            if name.startswith("AWS_"):
                del os.environ[name]  # restored after the test
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"  # this machine may be an instance
        self.store = self.start_store()
        os.environ["AWS_ENDPOINT_URL_S3"] = self.store.url

    def start_store(self):
        return S3Server(self)

    def login(self, region=REGION, token=None):
        os.environ.update(AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION=region)
        if token:
            os.environ["AWS_SESSION_TOKEN"] = token

    def put_model(self, key="tiny/model.safetensors", count=4, size=MIB, bucket="models"):
        written = tensors(count, size)
        return self.store.put(bucket, key, stores.safetensors(self.path("."), written)), written

    def put_sharded(self, prefix="sharded/", shards=6, size=200 * KIB, padding=0):
        """The URL of the prefix, the tensors of its shards, and the bytes of all headers and of the index."""
        local = self.path("shards")
        os.makedirs(local)
        parts = [[tensor._replace(name=f"shard.{number}.{i}", data=noise(size, seed=10 * number + i))
                  for i, tensor in enumerate(tensors(2, size))] for number in range(shards)]
        containers.write_safetensors_shards(local, parts, {"padding": "x" * padding})
        headers = 0
        for name in os.listdir(local):
            with open(os.path.join(local, name), "rb") as file:
                data = file.read()
            headers += len(data) if name.endswith(".json") else 8 + int.from_bytes(data[:8], "little")
            self.store.put("models", prefix + name, data)
        return f"s3://models/{prefix}", [tensor for part in parts for tensor in part], headers

    def count(self, **wanted):
        """How many requests have these fields."""
        return sum(all(getattr(request, name) == value for name, value in wanted.items()) for request in self.store.requests())

    def transferred(self):
        """The bytes of objects that were sent."""
        return sum(request.length for request in self.store.requests()
                   if request.status in (200, 206) and "list-type" not in request.query)

    def message(self, *argv):
        done = run("info", *argv)
        self.assertEqual(done.stdout.strip() if done.returncode else "", "")
        return done.returncode, done.stderr.strip()

    def assert_unreadable(self, *path, error=errno.EIO):
        with self.assertRaises(OSError) as caught:
            self.read_whole(*path)
        self.assertEqual(caught.exception.errno, error)


class Objects(S3TestCase):
    # semantics 23.1
    def test_key_is_a_model_file(self):
        self.login()
        url, written = self.put_model("with space/m + é=%41.safetensors")
        point = self.mount(url)
        self.assertEqual(os.listdir(os.path.join(point, "files")), ["m + é=%41.safetensors"])
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        self.assertEqual(json.loads(self.read_whole(point, "metadata.json"))["source"], url)
        self.assertEqual({request.status for request in self.store.requests()}, {206})

    # semantics 23.1
    def test_files_beside_a_key_are_found_by_their_names(self):
        self.login()
        url, written, headers = self.put_sharded(padding=40 * KIB)
        self.assertEqual(run("info", url + "model.safetensors.index.json").returncode, 0)
        self.assertEqual(self.count(status=206) + self.count(status=200), len(self.store.requests()))
        point = self.mount(url + "model.safetensors.index.json")
        self.assertEqual(self.read_whole(point, "tensors", written[7].name), written[7].data)
        self.assertTrue(all("list-type" not in request.query for request in self.store.requests()))

    # semantics 23.1
    def test_prefix_is_a_directory(self):
        self.login()
        self.put_model("zoo/a.safetensors")
        self.put_model("zoo/b.safetensors")
        self.put_model("zoo/deep/er/c.safetensors")
        self.put_model("zoo/deep/er/d.safetensors")
        self.store.put("models", "zoo/", b"")
        self.store.put("models", "zoo/deep/", b"")
        self.store.put("models", "zoo/notes.txt", b"text")
        self.store.put("models", "zoological/c.safetensors", b"other prefix")
        for source in ("s3://models/zoo/", "s3://models/zoo"):
            with self.subTest(source):
                listed = run("ls", "-R", "--all", source)
                self.assertEqual((listed.returncode, listed.stderr), (0, ""))
                self.assertEqual(listed.stdout.split("\n\n")[0], ".:\na.safetensors\nb.safetensors\ndeep\nnotes.txt")
                self.assertIn("deep/er:\nc.safetensors\nd.safetensors\n", listed.stdout)
        self.assertEqual(run("cat", "--all", "s3://models/zoo/", "notes.txt").stdout, "text")
        self.assertEqual(run("ls", "s3://models").stdout, "zoo\nzoological\n")

    # semantics 23.1
    def test_prefix_of_one_model_is_that_model_with_its_other_files(self):
        self.login()
        url, written, _ = self.put_sharded()
        self.store.put("models", "sharded/config.json", b'{"model_type": "tiny"}')
        point = self.mount(url)
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), len(written))
        self.assertEqual(self.read_whole(point, "files", "config.json"), b'{"model_type": "tiny"}')
        self.assertEqual(self.read_whole(point, "tensors", written[3].name), written[3].data)

    # semantics 23.3
    def test_tensor_is_transferred_with_little_more(self):
        self.login()
        url, written = self.put_model()
        for source in (url, "s3://models/tiny/"):
            with self.subTest(source):
                point = self.mount("--no-cache", source, at=os.path.basename(source) or "prefix")
                before = self.transferred()
                self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)
                self.assertLessEqual(self.transferred() - before, 1.02 * MIB + 128 * KIB)

    # semantics 23.3
    def test_listing_of_shards_transfers_their_headers_in_two_requests_each(self):
        self.login()
        url, written, headers = self.put_sharded(shards=20, padding=40 * KIB)
        listed = run("ls", url, "tensors")
        self.assertEqual((listed.returncode, len(listed.stdout.split())), (0, len(written)))
        self.assertLessEqual(self.transferred(), 1.1 * headers + 21 * 32 * KIB)
        self.assertEqual(self.count(path="/models/"), 1)
        for request in self.store.requests():
            self.assertLessEqual(self.count(path=request.path), 2, request.path)

    # semantics 23.3
    def test_known_version_is_not_transferred_again(self):
        self.login()
        url, written = self.put_model()
        self.read_whole(self.mount(url, at="one"), "tensors", "layer.1")
        before = self.transferred()
        self.assertEqual(self.read_whole(self.mount(url, at="two"), "tensors", "layer.1"), written[1].data)
        self.assertEqual((self.transferred(), self.count(status=304)), (before, 1))
        # Requests for a prefix use the same blocks.
        self.assertEqual(self.read_whole(self.mount("s3://models/tiny/", at="three"), "tensors", "layer.1"), written[1].data)
        self.assertEqual(self.transferred(), before)

    # semantics 23.1
    def test_listing_has_several_pages(self):
        self.login()
        self.store.page = 3
        for i in range(10):
            self.store.put("models", f"many/é {i}+&.txt", b"x" * i)
        listed = run("ls", "-l", "--all", "s3://models/many/")
        self.assertEqual(len(listed.stdout.splitlines()), 10)
        self.assertEqual(self.count(path="/models/"), 4)

    # semantics 23.1: stores that have only the first version of listings
    def test_store_without_the_second_version_of_listings(self):
        self.login()
        self.store.page = 3
        names = {f"tiny/a{i:02}.txt": b"%d" % i for i in range(8)}
        for key, data in names.items():
            self.store.put("models", key, data)
        shown = sorted(key[len("tiny/"):] for key in names)
        for v2, requests in (("ignored", 3), (400, 4), (405, 4), (501, 4)):
            with self.subTest(v2):
                self.store.v2 = v2
                before = len(self.store.requests())
                done = run("ls", "--all", "s3://models/tiny/")
                self.assertEqual((done.returncode, done.stdout.splitlines()), (0, shown), done.stderr)
                self.assertEqual(len(self.store.requests()) - before, requests)

    # semantics 23.5
    def test_store_that_wants_the_bucket_before_its_host_is_explained(self):
        self.login()
        error = in_xml("Error", in_xml("Code", "SecondLevelDomainForbidden") + in_xml("Message", "No."))
        self.store.before.append(responds(403, error.encode()))
        status, text = self.message("s3://models/tiny/")
        self.assertEqual(status, 4)
        self.assertIn("SecondLevelDomainForbidden: No", text)
        self.assertIn("; set addressing_style = virtual below `s3 =` in the profile", text)

    # semantics 23.5
    def test_refusal_of_both_versions_is_that_of_the_second(self):
        self.login()
        self.store.v2 = 405
        self.store.buckets["models"] = {}
        self.store.before.append(lambda request: responds(403)(request) if "list-type" not in request.query else None)
        status, text = self.message("s3://models/tiny/")
        self.assertEqual(status, 4)
        self.assertIn("list-type is not known", text)

    # semantics 23.3
    def test_many_objects_need_few_descriptors(self):
        self.login()
        for i in range(700):
            self.store.put("models", f"many/{i:03}.bin", bytes([i % 256]) * 3000)
        point = self.mount("--all", "s3://models/many/", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)))
        for i in range(700):
            self.assertEqual(self.read_whole(point, f"{i:03}.bin"), bytes([i % 256]) * 3000)
        self.assertEqual(len(self.store.requests()), 701)

    # semantics 23.1
    def test_services_and_the_helper_of_mount_take_object_stores(self):
        self.login()
        url, written = self.put_model()
        config = self.write("a.conf", f"SOURCE={url}\nMOUNTPOINT=/srv/weights\n".encode())
        self.assertEqual(json.loads(run("service", "show", config).stdout)["sources"], [url])
        helper, point = self.path("mount.weightfs"), self.path("mnt")
        os.symlink(WEIGHTFS, helper)
        os.mkdir(point)
        done = subprocess.run([helper, url, point, "-o", "ro,prefetch=off"], capture_output=True, text=True, timeout=60)
        self.addCleanup(self.force_unmount, point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        with open("/proc/self/mounts") as mounts:
            self.assertIn(f"{url} {point} ", mounts.read())

    def test_commands_take_object_stores(self):
        self.login()
        url, written = self.put_model()
        self.assertEqual(run("verify", url).returncode, 0)
        done = run("verify", "--tree", self.path("list"), url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(run("verify", "--tree", self.path("list2"), "s3://models/tiny/").returncode, 4)
        self.assertEqual(run("cat", url, "metadata.json").returncode, 0)
        self.assertEqual(run("fetch", "s3://models/tiny/").returncode, 0)
        self.store.stop()
        self.assertEqual(self.read_whole(self.mount("--offline", "s3://models/tiny/"), "tensors", "layer.3"), written[3].data)

    # semantics 23.1
    def test_invalid_names_are_refused_without_a_request(self):
        self.login()
        for source in ("s3:", "s3://", "s3:/models/x", "s3:///x", "s3://models/a/../b", "s3://models/./b", "s3://models/a//b",
                       "s3://mo dels/x", "s3://../x", "s3://models/" + "x" * 1025):
            with self.subTest(source):
                status, text = self.message(source)
                self.assertEqual(status, 4, text)
                self.assertEqual(len(text.splitlines()), 1)
        self.assertEqual(self.store.requests(), [])


class Versions(S3TestCase):
    # semantics 23.4
    def test_changed_object_fails_and_is_right_after_remount(self):
        self.login()
        url, old = self.put_model()
        for source in (url, "s3://models/tiny/"):
            with self.subTest(source):
                self.put_model()
                name = os.path.basename(source) or "prefix"
                point = self.mount("--no-cache", source, at=name)
                self.assertEqual(self.read_whole(point, "tensors", "layer.0"), old[0].data)
                new = [tensor._replace(data=noise(MIB, seed=100 + i)) for i, tensor in enumerate(old)]
                self.store.put("models", "tiny/model.safetensors", stores.safetensors(self.path("."), new))
                self.assert_unreadable(point, "tensors", "layer.3")
                self.assertGreaterEqual(self.count(status=412), 1)
                self.assertEqual(self.read_whole(self.mount("--no-cache", source, at=name + "2"), "tensors", "layer.3"),
                                 new[3].data)

    def put_versions(self, *versions):
        """Puts versions of a model of one tensor; returns its URL and the tensors' data by version."""
        data = {version: noise(MIB, seed=200 + i) for i, version in enumerate(versions)}
        for version in versions:
            written = [tensor._replace(data=data[version]) for tensor in tensors(1, MIB)]
            url = self.store.put("models", "tiny/model.safetensors", stores.safetensors(self.path("."), written), version=version)
        return url, data

    # semantics 23.7
    def test_version_of_an_object_is_pinned(self):
        self.login()
        url, data = self.put_versions("v1/+=~", "v2")
        points = {version: self.mount(f"{url}?versionId={version}", at=f"mnt{i}") for i, version in enumerate(data)}
        self.store.put("models", "tiny/model.safetensors", b"replaced", version="v3")
        for version, point in points.items():
            with self.subTest(version):
                self.assertEqual(self.read_whole(point, "tensors", "layer.0"), data[version])
                self.assertEqual(json.loads(self.read_whole(point, "metadata.json"))["source"], f"{url}?versionId={version}")
                self.assertEqual(os.listdir(os.path.join(point, "files")), ["model.safetensors"])
        self.assertEqual({request.query.get("versionId") for request in self.store.requests()}, set(data))
        before = len(self.store.requests())
        done = subprocess.run([WEIGHTFS, "cat", "--offline", f"{url}?versionId=v2", "tensors/layer.0"], capture_output=True,
                              timeout=60)
        self.assertEqual((done.stdout, done.stderr), (data["v2"], b""))
        self.assertEqual(len(self.store.requests()), before)

    # semantics 23.7
    def test_version_that_does_not_exist_or_is_not_one(self):
        self.login()
        url, _ = self.put_versions("v1")
        self.assertEqual(self.message(f"{url}?versionId=v2"), (3, f"weightfs: {url}?versionId=v2: no such version"))
        count = len(self.store.requests())
        for name in (f"{url}?versionId=", f"{url}?versionId=a b", f"{url}?versionId=" + "v" * 1025,
                     "s3://models/tiny/?versionId=v1", "s3://models/?versionId=v1"):
            with self.subTest(name):
                status, text = self.message(name)
                self.assertEqual(status, 4)
                self.assertIn("not a valid version", text)
        self.assertEqual(len(self.store.requests()), count)

    # semantics 23.7
    def test_store_that_ignores_the_version_is_detected(self):
        self.login()
        url, _ = self.put_model()
        self.assertEqual(self.message(f"{url}?versionId=v1"),
                         (7, f"weightfs: {url}?versionId=v1: the server sends another version"))
        self.assertEqual(self.message(f"{url}?versionId=null")[0], 0)

    # semantics 23.4
    def test_object_that_changes_within_a_read_is_never_mixed(self):
        self.login()
        url, old = self.put_model(count=1, size=40 * MIB)
        point = self.mount("--no-cache", "--prefetch=off", url)
        new = [old[0]._replace(data=noise(40 * MIB, seed=99))]
        other = stores.safetensors(self.path("."), new)
        seen = []

        def replace(request):
            seen.append(request.headers.get("if-match"))
            if len(seen) == 2:
                self.store.put("models", "tiny/model.safetensors", other)
        self.store.before.append(replace)
        self.assert_unreadable(point, "tensors", "layer.0")
        self.assertNotIn(None, seen)

    # semantics 23.4
    def test_store_that_ignores_the_condition_is_detected_by_its_tag(self):
        self.login()
        url, old = self.put_model()

        def without_condition(request):
            request.headers.pop("if-match", None)
        self.store.before.append(without_condition)
        point = self.mount("--no-cache", "s3://models/tiny/")
        self.read_whole(point, "tensors", "layer.0")
        new = [tensor._replace(data=noise(MIB, seed=100 + i)) for i, tensor in enumerate(old)]
        self.store.put("models", "tiny/model.safetensors", stores.safetensors(self.path("."), new))
        self.assert_unreadable(point, "tensors", "layer.3")

    # semantics 23.6
    def test_offline_mount_sends_no_request(self):
        self.login(region="us-other-1")
        url, written = self.put_model()
        for source in (url, "s3://models/tiny/", "s3://models/tiny"):
            point = self.mount(source, at=f"online{len(source)}")
            self.read_whole(point, "tensors", "layer.1")
            self.unmount(point)
        before = len(self.store.requests())
        for source in (url, "s3://models/tiny/", "s3://models/tiny"):
            with self.subTest(source):
                point = self.mount("--offline", source, at=f"offline{len(source)}")
                self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
                self.assert_unreadable(point, "tensors", "layer.3", error=errno.EHOSTUNREACH)
        self.assertEqual(self.message("--offline", "s3://models/other/"),
                         (8, "weightfs: s3://models/other/: listing not cached; retry without --offline"))
        self.assertEqual(len(self.store.requests()), before)

    # semantics 23.6
    def test_unreachable_store_refers_to_the_saved_listing(self):
        self.login()
        self.put_model()
        self.assertEqual(run("ls", "s3://models/tiny/").returncode, 0)
        os.environ["AWS_ENDPOINT_URL_S3"] = self.store.url
        self.store.before.append(lambda request: Refused(503, "SlowDown", "Please reduce your request rate.").response)
        status, text = self.message("--retries", "1", "s3://models/tiny/")
        self.assertEqual((status, self.count(status=503)), (8, 2))
        self.assertIn("use --offline for the saved listing", text)
        self.assertIn("weightfs: s3://models/tiny/: ", text)
        self.assertIn(f"status 503, SlowDown: Please reduce your request rate (AWS_ENDPOINT_URL_S3={self.store.url})", text)

    # semantics 23.6
    def test_unreachable_store_is_named_with_its_setting(self):
        self.login()
        url, _ = self.put_model()
        os.environ["AWS_ENDPOINT_URL_S3"] = "http://127.0.0.1:9"
        status, text = self.message(url)
        self.assertEqual(status, 8, text)
        self.assertTrue(text.startswith(f"weightfs: {url}: http://127.0.0.1:9/models/"), text)
        self.assertTrue(text.endswith("(AWS_ENDPOINT_URL_S3=http://127.0.0.1:9)"), text)
        os.environ["AWS_ENDPOINT_URL_S3"] = "nonsense"
        self.assertEqual(
            self.message(url)[1], f"weightfs: {url}: AWS_ENDPOINT_URL_S3=nonsense: not a valid endpoint of an object store")
        os.environ["AWS_ENDPOINT_URL_S3"] = self.store.url
        os.environ["AWS_REGION"] = "a/b"
        self.assertEqual(self.message(url)[1], f'weightfs: {url}: not a valid AWS region: AWS_REGION="a/b"')


class Signatures(S3TestCase):
    # semantics 23.2
    def test_every_request_is_signed(self):
        self.login()
        url, written = self.put_model()
        self.read_whole(self.mount(url), "tensors", "layer.1")
        self.assertGreaterEqual(len(self.store.requests()), 2)
        self.assertTrue(all("authorization" in request.headers for request in self.store.requests()))

    # semantics 23.2
    def test_requests_without_keys_are_anonymous(self):
        url, written = self.put_model()
        self.assertEqual(self.message(url),
                         (4, f"weightfs: access denied to {url}: AccessDenied: Access Denied (tried anonymously)"))
        self.store.public.add("models")
        self.assertEqual(self.read_whole(self.mount(url), "tensors", "layer.1"), written[1].data)
        self.assertTrue(all("authorization" not in request.headers for request in self.store.requests()))

    # semantics 23.2
    def test_session_token_is_sent_and_signed(self):
        self.store.token = TOKEN
        self.login()
        url, written = self.put_model()
        status, text = self.message(url)
        self.assertEqual(status, 4)
        self.assertIn("InvalidToken", text)
        self.login(token=TOKEN)
        self.assertEqual(self.read_whole(self.mount(url), "tensors", "layer.1"), written[1].data)

    # semantics 23.2
    def test_region_that_the_store_names_is_used_once_and_remembered(self):
        for status in (400, 301):
            with self.subTest(status):
                self.store.wrong_region_status = status
                self.login(region="us-other-1")
                url, written = self.put_model(bucket=f"models{status}")
                point = self.mount(url, at=f"mnt{status}")
                self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
                self.assertEqual(self.count(status=status), 1)
                self.assertEqual(run("info", url).returncode, 0)
                self.assertEqual(self.count(status=status), 1)

    # semantics 23.2
    def test_store_that_always_names_another_region_is_asked_twice(self):
        self.login()
        url, _ = self.put_model()
        regions = iter(f"eu-test-{i}" for i in range(2, 100))

        def elsewhere(request):
            raise Refused(400, "AuthorizationHeaderMalformed", "wrong", in_xml("Region", next(regions)))
        self.store.before.append(elsewhere)
        status, text = self.message(url)
        self.assertEqual(status, 4)
        self.assertIn("AuthorizationHeaderMalformed", text)
        self.assertEqual(len(self.store.requests()), 2)

    # semantics 23.2
    def test_region_that_is_not_one_is_ignored(self):
        self.login()
        url, _ = self.put_model()

        def elsewhere(request):
            raise Refused(301, "PermanentRedirect", "x", headers={"x-amz-bucket-region": "evil.example/?"})
        self.store.before.append(elsewhere)
        self.assertEqual(self.message(url)[0], 4)
        self.assertEqual(len(self.store.requests()), 1)

    # semantics 23.2
    def test_redirect_to_another_origin_gets_no_signature(self):
        self.login(token=TOKEN)
        url, written = self.put_model()
        other = S3Server(self)
        other.public.add("models")
        other.buckets = self.store.buckets

        def away(request):
            if "list-type" not in request.query:
                return 302, {"Location": f"{other.url}{request.target}?signature=of-the-target"}, b""
        self.store.before.append(away)
        for source in (url, "s3://models/tiny/"):
            with self.subTest(source):
                point = self.mount("--no-cache", source, at=os.path.basename(source) or "prefix")
                self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        self.assertGreaterEqual(len(other.requests()), 2)
        for request in other.requests():
            self.assertEqual([name for name in request.headers if name.startswith("x-amz-") or name == "authorization"], [])
        self.assertTrue(all("authorization" in request.headers for request in self.store.requests()))

    # semantics 23.2
    def test_redirect_within_the_store_is_signed_again(self):
        self.login()
        url, written = self.put_model("real.safetensors")

        def moved(request):
            if request.path == "/models/old.safetensors":
                return 307, {"Location": "/models/real.safetensors"}, b""
        self.store.before.append(moved)
        self.assertEqual(self.read_whole(self.mount("s3://models/old.safetensors"), "tensors", "layer.1"), written[1].data)

    # semantics 23.2
    def test_keys_of_a_profile_are_used(self):
        url, written = self.put_model()
        self.write("credentials", f"[default]\naws_access_key_id = other\naws_secret_access_key = other\n"
                                  f"[work]\naws_access_key_id={KEY_ID}\naws_secret_access_key = {SECRET}\n".encode())
        self.write("config", f"# comment\n[profile work]\nregion = {REGION}\nservices = local\n[services local]\ns3 =\n"
                             f"  endpoint_url = {self.store.url}\n".encode())
        del os.environ["AWS_ENDPOINT_URL_S3"]
        os.environ.update(AWS_SHARED_CREDENTIALS_FILE=self.path("credentials"), AWS_CONFIG_FILE=self.path("config"),
                          AWS_PROFILE="work")
        self.assertEqual(self.read_whole(self.mount(url), "tensors", "layer.1"), written[1].data)
        self.assertEqual({request.status for request in self.store.requests()}, {206})
        # The files are also found in the home directory; the process that reads containers cannot open them.
        os.mkdir(self.path("home", ".aws"))
        for name in ("credentials", "config"):
            os.rename(self.path(name), self.path("home", ".aws", name))
        del os.environ["AWS_SHARED_CREDENTIALS_FILE"], os.environ["AWS_CONFIG_FILE"]
        self.assertEqual(run("info", "--no-cache", url).returncode, 0)
        os.environ["AWS_PROFILE"] = "absent"
        self.assertEqual(self.message(url), (4, 'weightfs: AWS profile "absent" not found'))

    # semantics 23.2
    def test_profile_that_needs_a_program_is_named_and_the_program_is_not_run(self):
        url, _ = self.put_model()
        self.write("home/.aws/config", f"[default]\ncredential_process = touch {self.path('was-run')}\n".encode())
        status, text = self.message(url)
        self.assertEqual(status, 4)
        self.assertTrue(text.endswith('(tried anonymously; the profile "default" uses credential_process, but weightfs runs no '
                                      'programs; write what it prints to a file for --credentials-file)'), text)
        self.assertFalse(os.path.exists(self.path("was-run")))

    # semantics 23.2
    def test_plain_http_to_other_hosts_is_refused(self):
        self.login()
        for endpoint in ("http://203.0.113.1", "http://store.example:9000"):
            os.environ["AWS_ENDPOINT_URL_S3"] = endpoint
            status, text = self.message("s3://models/x")
            self.assertEqual(status, 4)
            self.assertIn("http:// needs --insecure", text)
        for endpoint in ("ftp://x", "nonsense", f"http://user:{SECRET}@127.0.0.1", f"http://127.0.0.1/?{SECRET}"):
            os.environ["AWS_ENDPOINT_URL_S3"] = endpoint
            status, text = self.message("s3://models/x")
            self.assertEqual(status, 4)
            self.assertIn("not a valid endpoint", text)
            self.assertNotIn(SECRET, text)

    # semantics 23.2
    def test_secrets_appear_nowhere(self):
        self.login(token=TOKEN)
        url, _ = self.put_model()
        process, point = self.foreground("--log-level", "debug", url)
        self.read_whole(point, "tensors", "layer.1")
        texts = [self.read_whole(point, ".weightfs", name).decode() for name in os.listdir(os.path.join(point, ".weightfs"))]
        texts += [self.read_whole(point, name).decode() for name in ("metadata.json", "metadata.toml", "tensors.json")]
        for pid in (process.pid, self.server(point)):
            with open(f"/proc/{pid}/cmdline") as file:
                texts.append(file.read())
        with open("/proc/self/mounts") as file:
            texts.append(file.read())
        del self.store.buckets["models"]["tiny/model.safetensors"]
        self.assert_unreadable(point, "tensors", "layer.3")
        texts += self.end(process)
        os.environ["AWS_SECRET_ACCESS_KEY"] = "Wrong" + SECRET
        done = run("info", url)
        self.assertIn("SignatureDoesNotMatch", done.stderr)
        self.assertIn("(tried with the access key ...ABCD)", done.stderr)
        texts.append(done.stderr)
        for folder, _, names in os.walk(self.cache()):
            texts += [self.read_whole(folder, name).decode(errors="replace") for name in names
                      if not os.path.islink(os.path.join(folder, name))]
        for text in texts:
            for secret in (SECRET, TOKEN, KEY_ID, "Signature="):
                self.assertNotIn(secret, text)


class RotatedKeys(S3TestCase):
    """Keys in a file that has the next ones before the old ones end, and after."""

    def login_by_file(self, token):
        text = f"[default]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\naws_session_token = {token}\n"
        self.write("keys/new", text.encode())
        os.replace(self.path("keys/new"), self.path("keys/credentials"))
        os.environ.update(AWS_SHARED_CREDENTIALS_FILE=self.path("keys/credentials"), AWS_REGION=REGION)

    def accept(self, token):
        def check(request):
            if request.headers.get("x-amz-security-token") != token:
                raise Refused(400, "ExpiredToken", "The provided token has expired.")
        self.store.before = [check]
        self.store.token = token

    def test_file_is_read_again_when_a_token_has_expired(self):
        url, written = self.put_model(size=MIB)
        self.login_by_file("first")
        self.accept("first")
        point = self.mount(url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.0"), written[0].data)
        self.login_by_file("second")
        self.accept("second")
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)
        refused = [request for request in self.store.requests() if request.status == 400]
        self.assertEqual(len(refused), 1)

    def test_status_names_the_source_of_the_keys(self):
        url, _ = self.put_model(size=MIB)
        self.login_by_file("first")
        self.accept("first")
        for sandbox in ("on", "off"):
            with self.subTest(sandbox):
                point = self.mount(f"--sandbox={sandbox}", url, at=f"by-file-{sandbox}")
                text = self.read_whole(point, ".weightfs", "status.json").decode()
                self.assertEqual(list(json.loads(text)["keys"]), [self.store.url])
                key = json.loads(text)["keys"][self.store.url]
                self.assertEqual(key["from"], self.path("keys/credentials"))
                self.assertRegex(key["read"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
                self.assertNotIn("expires", key)
                for secret in (KEY_ID, SECRET, "first"):
                    self.assertNotIn(secret, text)
        self.login(token="first")
        point = self.mount(url, at="by-variable")
        status = json.loads(self.read_whole(point, ".weightfs", "status.json"))
        self.assertEqual(status["keys"][self.store.url]["from"], "$AWS_ACCESS_KEY_ID")

    def test_same_keys_are_refused_with_the_reason_of_the_store(self):
        url, _ = self.put_model(size=MIB)
        self.login_by_file("first")
        self.accept("second")
        done = run("info", url)
        self.assertEqual(done.returncode, 4)
        self.assertIn("ExpiredToken", done.stderr)
        self.assertNotIn("first", done.stderr)


class Errors(S3TestCase):
    # semantics 23.5
    def test_errors_have_the_words_of_the_store(self):
        self.login()
        self.put_model()
        self.assertEqual(self.message("s3://absent/x"),
                         (3, "weightfs: s3://absent/x: NoSuchBucket: The specified bucket does not exist"))
        self.assertEqual(self.message("s3://models/x"), (3, "weightfs: s3://models/x: no such object, and no objects below it"))
        self.assertEqual(self.message("s3://models/x/"), (3, "weightfs: s3://models/x/: no objects below it"))
        self.store.clock = lambda: datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        status, text = self.message("s3://models/tiny/model.safetensors")
        self.assertEqual(status, 4)
        self.assertIn("RequestTimeTooSkewed: The difference between the request time and the current time is too large", text)

    # semantics 23.5
    def test_archived_object_is_listed_and_reads_fail_with_the_reason(self):
        self.login()
        self.put_model("zoo/a.safetensors")
        data = self.store.buckets["models"]["zoo/a.safetensors"].data
        self.store.put("models", "zoo/b.safetensors", data, storage_class="GLACIER")
        process, point = self.foreground("s3://models/zoo/")
        self.assertEqual(sorted(os.listdir(point)), ["a.safetensors", "b.safetensors"])
        self.assertTrue(os.listdir(os.path.join(point, "a.safetensors", "tensors")))
        with self.assertRaises(OSError):
            os.listdir(os.path.join(point, "b.safetensors"))
        self.assertIn("InvalidObjectState: The operation is not valid for the object's storage class", "\n".join(self.end(process)))
        status, text = self.message("s3://models/zoo/b.safetensors")
        self.assertEqual(status, 4)
        self.assertIn("InvalidObjectState", text)

    # semantics 23.5
    def test_request_that_should_be_slower_is_repeated(self):
        self.login()
        url, written = self.put_model()
        refused = []

        def slow_down(request):
            if request.headers.get("range") not in refused and len(refused) < 3:
                refused.append(request.headers.get("range"))
                raise Refused(503, "SlowDown", "Please reduce your request rate.")
        self.store.before.append(slow_down)
        point = self.mount("s3://models/tiny/")
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        self.assertEqual(self.count(status=503), 3)

    # semantics 23.5
    def test_request_that_timed_out_at_the_store_is_repeated(self):
        self.login()
        url, written = self.put_model()
        refused = []

        def time_out(request):
            if request.headers.get("range") not in refused and len(refused) < 3:
                refused.append(request.headers.get("range"))
                raise Refused(400, "RequestTimeout", "Your socket connection to the server was not read from or written to.")
        self.store.before.append(time_out)
        point = self.mount("s3://models/tiny/")
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        self.assertEqual(self.count(status=400), 3)

    # semantics 23.5
    def test_error_that_is_not_xml_is_a_status(self):
        self.login()
        url, _ = self.put_model()
        for body in (b"", b"<html>", b"<Error><Code>" + b"<x>" * 100, b"\0\x1b[31m",
                     b"<!DOCTYPE x [<!ENTITY a 'b'>]><Error><Code>&a;</Code></Error>"):
            with self.subTest(body):
                self.store.before[:] = [responds(418, body)]
                status, text = self.message(url)
                self.assertEqual((status, text), (4, f"weightfs: {url}: status 418 (tried with the access key ...ABCD)"))


class HostileListings(S3TestCase):
    def setUp(self):
        super().setUp()
        self.login()
        self.store.buckets["models"] = {}

    def page(self, *contents, truncated="false", token=""):
        return (f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
                f"<EncodingType>url</EncodingType>{''.join(contents)}</ListBucketResult>")

    def entry(self, key, size="5", etag="&quot;tag&quot;"):
        return in_xml("Contents", in_xml("Key", key) + in_xml("Size", size) + in_xml("ETag", etag))

    # docs/design/limits.md
    def test_keys_that_are_not_paths_are_left_out_with_a_warning(self):
        keys = ("../up.txt", "a/../b.txt", "./c.txt", "a//d.txt", "%00.txt", "good.txt", "/root.txt", "%1B[31m.txt", "good.txt",
                "good.txt/below")
        self.store.listing = lambda query: self.page(*(self.entry("p/" + key) for key in keys))
        done = run("ls", "-R", "--all", "s3://models/p/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [".:", "%1B[31m.txt", "good.txt", "good.txt-2"])
        self.assertGreaterEqual(len(done.stderr.splitlines()), 6)
        self.assertNotIn("\x1b", done.stderr)

    # docs/design/limits.md
    def test_tokens_that_repeat_end_with_an_error(self):
        for tokens in (("same", "same"), ("a", "b", "a"), ("", ""), ("x" * 5000,)):
            with self.subTest(tokens):
                pages = iter(tokens)
                self.store.listing = lambda query: self.page(self.entry("p/x"), truncated="true", token=next(pages))
                status, text = self.message("s3://models/p/")
                self.assertEqual((status, text), (5, "weightfs: s3://models/p/: the server's listing does not end"))

    # docs/design/limits.md
    def test_listing_without_an_end_is_bounded(self):
        numbers = iter(range(10**9))
        self.store.listing = lambda query: self.page(*(self.entry(f"p/{next(numbers)}") for _ in range(5000)), truncated="true",
                                                     token=f"t{next(numbers)}")
        status, text = self.message("s3://models/p/")
        self.assertEqual((status, text), (4, "weightfs: s3://models/p/: more than 200000 objects; name a prefix of fewer"))

    # docs/design/limits.md
    def test_empty_pages_without_an_end_are_bounded(self):
        numbers = iter(range(10**9))
        self.store.listing = lambda query: self.page(truncated="true", token=f"t{next(numbers)}")
        self.assertEqual(self.message("s3://models/p/"), (5, "weightfs: s3://models/p/: the server's listing does not end"))
        self.assertLessEqual(len(self.store.requests()), 1000)

    # docs/design/limits.md
    def test_page_that_is_too_large_is_refused(self):
        self.store.listing = lambda query: self.page("<!--" + "x" * (9 << 20) + "-->")
        status, text = self.message("s3://models/p/")
        self.assertEqual(status, 5)
        self.assertIn("larger than 8.0 MiB", text)

    # docs/design/limits.md
    def test_invalid_entries_and_pages_are_refused(self):
        for listing in ("", "<page></page>", "<ListBucketResult>", self.page(self.entry("p/x", size="-1")),
                        self.page(self.entry("p/x", size="")), self.page(self.entry("p/x",
                                                                                    size=str(1 << 63))), self.page(self.entry("")),
                        self.page(self.entry("elsewhere/x")), self.page(self.entry("p/%zz")), "<!DOCTYPE a>" + self.page(),
                        self.page("<a>" * 100), self.page("&unknown;")):
            with self.subTest(listing[:200]):
                self.store.listing = lambda query: listing
                status, text = self.message("s3://models/p/")
                self.assertEqual(status, 5, text)
                self.assertEqual(len(text.splitlines()), 1)

    # semantics 14.6
    def test_web_page_instead_of_a_listing_is_named(self):
        self.store.listing = lambda query: "<!DOCTYPE html><html><title>Sign in</title></html>"
        status, text = self.message("s3://models/p/")
        self.assertEqual(status, 4, text)
        self.assertIn("the server sent a web page (text/html)", text)

    # docs/design/limits.md
    def test_tag_is_not_a_way_into_the_headers(self):
        data = b"12345"
        self.store.put("models", "p/x.txt", data)
        for etag in ("&quot;a&#13;&#10;X-Evil: 1&quot;", "&quot;a&quot;, &quot;b&quot;", "x" * 1000, "W/&quot;a&quot;"):
            with self.subTest(etag):
                self.store.listing = lambda query: self.page(self.entry("p/x.txt", etag=etag))
                self.assertEqual(run("cat", "--no-cache", "--all", "s3://models/p/", "x.txt").stdout, "12345")
        self.assertTrue(
            all("if-match" not in request.headers and "x-evil" not in request.headers for request in self.store.requests()))

    # docs/design/limits.md
    def test_size_that_the_object_does_not_have_fails_the_read(self):
        self.store.put("models", "p/x.txt", b"12345")
        etag = self.store.buckets["models"]["p/x.txt"].etag.replace('"', "&quot;")
        for size in ("4", "6", str(1 << 60)):
            with self.subTest(size):
                self.store.listing = lambda query: self.page(self.entry("p/x.txt", size=size, etag=etag))
                done = run("cat", "--no-cache", "--all", "s3://models/p/", "x.txt")
                self.assertNotEqual(done.returncode, 0)
                self.assertNotIn("12345", done.stdout)

    # docs/design/limits.md
    def test_hundred_thousand_objects_are_listed(self):
        self.store.listing = None
        self.store.buckets["models"] = {f"big/{i:06}.bin": stored for i, stored in enumerate([self.store_one()] * 100_000)}
        done = run("ls", "--all", "s3://models/big/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(done.stdout.splitlines()), 100_000)
        self.assertEqual(len(self.store.requests()), 100)
        self.assertEqual(len(run("ls", "--all", "--offline", "s3://models/big/").stdout.splitlines()), 100_000)

    def store_one(self):
        self.store.put("models", "one", b"x")
        return self.store.buckets["models"]["one"]


@needs("curl")
class OfTheDouble(S3TestCase):
    """The double itself: it accepts the signatures of curl, which is another implementation, and refuses wrong ones."""

    def status(self, *argv, key="a + b=c.txt"):
        path = urllib.parse.quote(f"/models/{key}", safe="/-_.~")
        done = subprocess.run(["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--aws-sigv4", f"aws:amz:{REGION}:s3",
                               "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *argv, self.store.url + path],
                              capture_output=True, text=True, timeout=60)
        return done.stdout

    def test_signatures_of_curl_are_accepted(self):
        self.store.put("models", "a + b=c.txt", b"x")
        self.assertEqual(self.status("--user", f"{KEY_ID}:{SECRET}"), "200")
        self.assertEqual(self.status("--user", f"{KEY_ID}:{SECRET}", key="absent"), "404")
        self.assertEqual(self.status("--user", f"{KEY_ID}:other"), "403")
        self.assertEqual(self.status("--user", f"other:{SECRET}"), "403")


START_S3RVER = """
const S3rver = require('s3rver');
const [directory, bucket] = process.argv.slice(1);
new S3rver({port: 0, address: '127.0.0.1', silent: true, directory, configureBuckets: [{name: bucket}]}).run();
"""


class FromS3rver(S3TestCase):
    """A store that other people wrote. It checks the form, the key and the time of a signature, and lists and sends objects in its
    own way: without encoding-type, and without If-Match."""
    KEY = "with space/m+é & <b>.safetensors"

    def start_store(self):
        folder = npm_packages.folder_with(f"s3rver@{S3RVER}")
        if folder is None:
            self.skipTest("s3rver is not installed")
        os.mkdir(self.path("store"))
        with open(self.path("s3rver.log"), "wb") as log:
            self.process = subprocess.Popen(["node", "-e", START_S3RVER, self.path("store"), "models"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, cwd=folder, preexec_fn=ended_with_parent(signal.SIGKILL))
        self.addCleanup(self.end_store)
        until(lambda: listening_port(self.process.pid) or self.process.poll() is not None, "s3rver does not start")
        self.assertIsNone(self.process.poll(), self.read("s3rver.log"))
        self.url = f"http://127.0.0.1:{listening_port(self.process.pid)}"
        return self

    def end_store(self):
        self.process.terminate()
        self.process.wait(60)

    def login(self):
        os.environ.update(AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER")

    def upload(self, key, data):
        request = urllib.request.Request(f"{self.url}/models/{urllib.parse.quote(key)}", data, method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.assertEqual(answer.status, 200)

    def upload_models(self):
        written = tensors(3, MIB)
        data = stores.safetensors(self.path("."), written)
        for key in ("zoo/a.safetensors", "zoo/b.safetensors", self.KEY):
            self.upload(key, data)
        self.upload("zoo/notes.txt", b"text")
        return written

    def assert_models_are_right(self):
        written = self.upload_models()
        point = self.mount("--all", "s3://models", at="all")
        self.assertEqual(sorted(os.listdir(point)), ["with space", "zoo"])
        self.assertEqual(self.read_whole(point, "zoo", "notes.txt"), b"text")
        point = self.mount("s3://models/zoo/")
        for name in ("a.safetensors", "b.safetensors"):
            for tensor in written:
                self.assertEqual(self.read_whole(point, name, "tensors", tensor.name), tensor.data)
        point = self.mount("--no-cache", "s3://models/" + self.KEY, at="key")
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)
        status, text = self.message("s3://models/absent")
        self.assertEqual((status, text), (3, "weightfs: s3://models/absent: no such object, and no objects below it"))
        self.assertIn("NoSuchBucket: The specified bucket does not exist", self.message("s3://absent/x")[1])

    # semantics 23.1
    def test_anonymous_requests(self):
        self.assert_models_are_right()

    # semantics 23.2
    def test_signed_requests(self):
        self.login()
        self.assert_models_are_right()

    # semantics 23.2
    def test_unknown_key_is_refused_with_the_words_of_the_store(self):
        self.login()
        os.environ["AWS_ACCESS_KEY_ID"] = "AKIDWHICHISUNKNOWN"
        status, text = self.message("s3://models/zoo/a.safetensors")
        self.assertEqual(status, 4)
        self.assertIn("InvalidAccessKeyId: The AWS Access Key Id you provided does not exist in our records", text)
        self.assertIn("(tried with the access key ...NOWN)", text)

    # semantics 23.4
    def test_object_that_changes_is_detected_by_its_tag(self):
        self.upload_models()
        point = self.mount("--no-cache", "s3://models/zoo/a.safetensors")
        self.upload("zoo/a.safetensors",
                    stores.safetensors(self.path("."), [t._replace(data=noise(MIB, seed=50)) for t in tensors(3, MIB)]))
        self.assert_unreadable(point, "tensors", "layer.2")


if __name__ == "__main__":
    unittest.main()
