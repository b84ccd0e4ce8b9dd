"""`weightfs serve` as an object store: a client with signatures of its own, aws-cli and rclone if they are installed, and weightfs
itself. semantics 29.13"""
import datetime
import hashlib
import hmac
import json
import os
import re
import subprocess
import textwrap
import unittest
import urllib.parse
from xml.etree import ElementTree

from http_serving import ServingTestCase
from mounting import LIMIT_S, WEIGHTFS, Tensor, run
from servers import needs, path_of
import stores

KEY_ID, SECRET = "AKIDOFTHETESTSABCD", "secret/of+the=tests"
EMPTY = hashlib.sha256(b"").hexdigest()
NAMES = "{http://s3.amazonaws.com/doc/2006-03-01/}"
REGION = "eu-any-1"


def escaped(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def query_of(parameters):
    return "&".join(f"{escaped(name)}={escaped(value)}" for name, value in sorted(parameters.items()))


def signature(secret, method, path, query, headers, body, date):
    """AWS Signature Version 4. `path` and `query` are escaped, the names of the headers in lower case."""
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = "\n".join((method, path, query, lines, names, body))
    scope = f"{date[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = ("AWS4" + secret).encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Client:
    """A client in path style. Without a secret its requests are anonymous."""

    def __init__(self, server, secret=None, skew_s=0):
        self.server, self.secret, self.skew_s = server, secret, skew_s
        self.host = f"{server.host}:{server.port}"

    def date(self):
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.skew_s)
        return now.strftime("%Y%m%dT%H%M%SZ")

    def ask(self, path, method="GET", parameters={}, **fields):
        path, query = "/.s3" + escaped(path, "/"), query_of(parameters)
        if self.secret:
            date = self.date()
            headers = {"host": self.host, "x-amz-date": date, "x-amz-content-sha256": EMPTY}
            mac = signature(self.secret, method, path, query, headers, EMPTY, date)
            fields.update(x_amz_date=date, x_amz_content_sha256=EMPTY,
                          Authorization=f"AWS4-HMAC-SHA256 Credential={KEY_ID}/{date[:8]}/{REGION}/s3/aws4_request, "
                          f"SignedHeaders={';'.join(sorted(headers))}, Signature={mac}")
        return self.server.get(path + ("?" + query if query else ""), method, **fields)

    def presigned(self, path, valid_s, **parameters):
        """The target of a URL that is valid for so long."""
        date = self.date()
        parameters = {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Date": date, "X-Amz-Expires": str(valid_s),
                      "X-Amz-Credential": f"{KEY_ID}/{date[:8]}/{REGION}/s3/aws4_request", "X-Amz-SignedHeaders": "host",
                      **parameters}
        path, query = "/.s3" + escaped(path, "/"), query_of(parameters)
        mac = signature(self.secret, "GET", path, query, {"host": self.host}, "UNSIGNED-PAYLOAD", date)
        return f"{path}?{query}&X-Amz-Signature={mac}"

    def xml(self, path, **parameters):
        response = self.ask(path, parameters=parameters)
        if response.status != 200:
            raise AssertionError(f"{path}: {response.status}, {response.body}")
        return ElementTree.fromstring(response.body)

    def list(self, bucket, size, **parameters):
        """All pages of ListObjectsV2: the keys with their sizes, and the common prefixes."""
        keys, prefixes, token = {}, [], {}
        while True:
            fixed = {"list-type": "2", "max-keys": str(size), "encoding-type": "url"}
            page = self.xml(f"/{bucket}", **fixed, **parameters, **token)
            names = [urllib.parse.unquote_plus(each.findtext(f"{NAMES}Key")) for each in page.findall(f"{NAMES}Contents")]
            groups = [urllib.parse.unquote_plus(each.findtext(f"{NAMES}Prefix"))
                      for each in page.findall(f"{NAMES}CommonPrefixes")]
            if int(page.findtext(f"{NAMES}KeyCount")) != len(names) + len(groups) or len(names) + len(groups) > size:
                raise AssertionError(ElementTree.tostring(page))
            keys.update(zip(names, (int(each.findtext(f"{NAMES}Size")) for each in page.findall(f"{NAMES}Contents"))))
            prefixes += groups
            if page.findtext(f"{NAMES}IsTruncated") == "false":
                return keys, prefixes
            token = {"continuation-token": page.findtext(f"{NAMES}NextContinuationToken")}


def code_of(response):
    """The status and the code of an error."""
    return response.status, ElementTree.fromstring(response.body).findtext("Code")


class Serving(ServingTestCase):
    def repository(self):
        """A directory of a model, with names that URLs and XML escape."""
        os.makedirs(self.path("tiny/sub"))
        tensors = [Tensor("large", "uint8", (100_000,), bytes(range(250)) * 400), Tensor("small", "uint8", (5,), b"hello")]
        self.files = {"config.json": b'{"model_type": "llama"}', "sub/notes.txt": b"notes", "sub/a b & c+d.txt": b"spaces",
                      "sub/m\u00fcll..txt": b"unicode", "model.safetensors": stores.safetensors(self.path("tiny"), tensors)}
        for name, content in self.files.items():
            self.write(f"tiny/{name}", content)
        return self.path("tiny")

    def keys_file(self, mode=0o600):
        path = self.write("s3.keys", f"# of the tests\n{KEY_ID} {SECRET}\n".encode())
        os.chmod(path, mode)
        return path

    def client_of_weightfs(self, server, *words, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment.update(AWS_ENDPOINT_URL=f"{server.url}.s3", AWS_EC2_METADATA_DISABLED="true", WEIGHTFS_CACHE=self.path("cache"),
                           **variables)
        return run(*words, text=False, env=environment)

    def serve_signed(self):
        """A server with a token and an access key."""
        return self.serve(self.repository(), options=("--token-file", self.write("token", b"t0ken\n"), "--s3-keys",
                                                      self.keys_file()))


class Anonymous(Serving):
    def setUp(self):
        super().setUp()
        self.server = self.serve(self.repository())
        self.client = Client(self.server)

    def test_bucket_is_the_model(self):
        buckets = [each.text for each in self.client.xml("/").iter(f"{NAMES}Name")]
        self.assertEqual(buckets, ["tiny"])
        self.assertEqual(self.client.ask("/tiny", "HEAD").status, 200)
        self.assertEqual(self.client.ask("/other", "HEAD").status, 404)
        self.assertEqual(code_of(self.client.ask("/other")), (404, "NoSuchBucket"))
        self.assertEqual(self.client.xml("/tiny", location="").tag, f"{NAMES}LocationConstraint")

    def test_listing_in_pages_of_any_size(self):
        expected = {name: len(content) for name, content in self.files.items()}
        for size in (1, 2, 1000):
            self.assertEqual(self.client.list("tiny", size), (expected, []))
            keys, prefixes = self.client.list("tiny", size, delimiter="/")
            self.assertEqual((set(keys), prefixes), ({"config.json", "model.safetensors"}, ["sub/"]))
            keys, prefixes = self.client.list("tiny", size, delimiter="/", prefix="sub/")
            self.assertEqual((set(keys), prefixes), ({name for name in expected if name.startswith("sub/")}, []))

    def test_objects_are_the_files(self):
        for name, content in self.files.items():
            head, whole = self.client.ask(f"/tiny/{name}", "HEAD"), self.client.ask(f"/tiny/{name}")
            self.assertEqual((head.status, whole.status, whole.body), (200, 200, content), name)
            self.assertEqual(int(head.headers["Content-Length"]), len(content))
            self.assertEqual(head.headers["ETag"], whole.headers["ETag"])
            self.assertRegex(head.headers["ETag"], '^"[0-9a-f]+-1"$', "not of the form of an MD5")
            self.assertIsNotNone(whole.headers["x-amz-request-id"])
        content = self.files["model.safetensors"]
        tag = self.client.ask("/tiny/model.safetensors", "HEAD").headers["ETag"]
        for field, expected in (("bytes=5-9", content[5:10]), ("bytes=99990-", content[99990:]), ("bytes=-7", content[-7:])):
            part = self.client.ask("/tiny/model.safetensors", Range=field, If_Match=tag)
            self.assertEqual((part.status, part.body), (206, expected), field)
        self.assertEqual(self.client.ask("/tiny/model.safetensors", If_None_Match=tag).status, 304)
        listed = self.client.xml("/tiny", prefix="model").findtext(f"{NAMES}Contents/{NAMES}ETag")
        self.assertEqual(listed, tag)

    def test_errors_are_those_of_s3(self):
        for path, method, fields, expected in (
            ("/tiny/none", "GET", {}, (404, "NoSuchKey")), ("/tiny/config.json/", "GET", {}, (404, "NoSuchKey")),
            ("/tiny/../tiny/config.json", "GET", {}, (404, "NoSuchKey")),
            ("/tiny/config.json", "GET", {"Range": "bytes=1000-"}, (416, "InvalidRange")),
            ("/tiny/config.json", "GET", {"If_Match": '"other"'}, (412, "PreconditionFailed")),
            ("/tiny/config.json", "PUT", {}, (405, "MethodNotAllowed")),
            ("/tiny/config.json", "DELETE", {}, (405, "MethodNotAllowed")), ("/tiny", "POST", {}, (405, "MethodNotAllowed")),
        ):
            self.assertEqual(code_of(self.client.ask(path, method, **fields)), expected, (path, method))
        self.assertEqual(code_of(self.client.ask("/tiny", parameters={"max-keys": "many"})), (400, "InvalidArgument"))
        self.assertEqual(code_of(self.client.ask("/tiny/config.json", parameters={"acl": ""})), (501, "NotImplemented"))

    def test_signature_is_ignored_by_a_server_without_a_token(self):
        self.assertEqual(Client(self.server, "any secret").ask("/tiny/config.json").status, 200)

    def test_lines_for_clients_are_printed(self):
        printed = self.server.error_text().splitlines()
        self.assertIn(f"aws --endpoint-url {self.server.url}.s3 --no-sign-request s3 ls", printed)
        self.assertIn(f"rclone lsd :s3: --s3-provider Other --s3-endpoint {self.server.url}.s3", printed)
        self.assertEqual([line for line in printed if len(line) > 80 and not line.startswith("weightfs: ")], [])
        quiet = self.serve(self.path("tiny"), options=("--log-level", "warning"))
        self.assertNotIn("aws ", quiet.error_text())

    def test_weightfs_is_a_client(self):
        done = self.client_of_weightfs(self.server, "info", "--json", "s3://tiny/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["tensors"], json.loads(run("info", "--json", self.path("tiny")).stdout)["tensors"])
        for name in ("config.json", "model.safetensors"):
            done = self.client_of_weightfs(self.server, "cat", "s3://tiny/", f"files/{name}")
            self.assertEqual((done.returncode, done.stdout), (0, self.files[name]), done.stderr)
        done = self.client_of_weightfs(self.server, "cat", "s3://tiny/model.safetensors", "small")
        self.assertEqual((done.returncode, done.stdout), (0, b"hello"), done.stderr)
        self.assertEqual(self.client_of_weightfs(self.server, "info", "s3://other/").returncode, 3)


class Signed(Serving):
    def test_token_or_key_is_needed(self):
        server = self.serve_signed()
        self.assertEqual(code_of(Client(server).ask("/tiny")), (403, "AccessDenied"))
        self.assertEqual(server.get("/.s3/tiny", Authorization="Bearer t0ken").status, 200)
        self.assertEqual(server.get("/.s3/tiny", Authorization="Bearer other").status, 403)
        client = Client(server, SECRET)
        self.assertEqual({name: len(content) for name, content in self.files.items()}, client.list("tiny", 2)[0])
        for name, content in self.files.items():
            self.assertEqual(client.ask(f"/tiny/{name}").body, content, name)
        self.assertEqual(code_of(Client(server, "wrong").ask("/tiny/config.json")), (403, "SignatureDoesNotMatch"))
        self.assertEqual(server.get("/config.json", Authorization="x").status, 401, "only below /.s3/")

    def test_clock_and_range_are_checked(self):
        server = self.serve_signed()
        self.assertEqual(code_of(Client(server, SECRET, skew_s=-1000).ask("/tiny")), (403, "RequestTimeTooSkewed"))
        self.assertEqual(Client(server, SECRET, skew_s=600).ask("/tiny").status, 200)
        part = Client(server, SECRET).ask("/tiny/config.json", Range="bytes=1-3")
        self.assertEqual((part.status, part.body), (206, self.files["config.json"][1:4]))

    def test_presigned_urls(self):
        server = self.serve_signed()
        client = Client(server, SECRET)
        for name, content in self.files.items():
            self.assertEqual(server.get(client.presigned(f"/tiny/{name}", 60)).body, content, name)
        expired = Client(server, SECRET, skew_s=-600)
        self.assertEqual(code_of(server.get(expired.presigned("/tiny/config.json", 60))), (403, "AccessDenied"))
        self.assertEqual(server.get(expired.presigned("/tiny/config.json", 3600)).status, 200)
        other = client.presigned("/tiny/config.json", 60).replace("config.json", "sub/notes.txt")
        self.assertEqual(code_of(server.get(other)), (403, "SignatureDoesNotMatch"))
        self.assertEqual(code_of(server.get(client.presigned("/tiny/config.json", 8 * 24 * 3600))),
                         (400, "AuthorizationQueryParametersError"))

    def test_access_log_has_no_signature(self):
        log = self.path("log")
        server = self.serve(self.repository(), options=("--token-file", self.write("token", b"t0ken\n"), "--s3-keys",
                                                        self.keys_file(), "--access-log", log))
        target = Client(server, SECRET).presigned("/tiny/config.json", 60)
        self.assertEqual(server.get(target).status, 200)
        server.close()
        with open(log) as file:
            text = file.read()
        self.assertIn("X-Amz-Signature=*", text)
        self.assertNotIn(target.rpartition("=")[2], text)

    def test_keys_are_refused_unless_private(self):
        source, token = self.repository(), self.write("token", b"t0ken\n")
        os.chmod(token, 0o644)
        keys = self.keys_file(0o644)
        for words, text in ((("--s3-keys", keys), "add --token-file FILE"),
                            (("--token-file", token, "--s3-keys", keys), "others have access to it; chmod 600"),
                            (("--token-file", token, "--s3-keys", token), "others have access to it")):
            done = run("serve", "--listen", "127.0.0.1:0", *words, source)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(text, done.stderr)
        bad = self.write("bad.keys", b"one-word\n")
        os.chmod(bad, 0o600)
        done = run("serve", "--listen", "127.0.0.1:0", "--token-file", token, "--s3-keys", bad, source)
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1: not ACCESS_KEY SECRET", done.stderr)
        self.assertNotIn("one-word", done.stderr)

    def test_weightfs_signs(self):
        server = self.serve_signed()
        done = self.client_of_weightfs(server, "cat", "s3://tiny/", "files/config.json", AWS_ACCESS_KEY_ID=KEY_ID,
                                       AWS_SECRET_ACCESS_KEY=SECRET)
        self.assertEqual((done.returncode, done.stdout), (0, self.files["config.json"]), done.stderr)
        done = self.client_of_weightfs(server, "cat", "--no-cache", "s3://tiny/", "files/config.json", AWS_ACCESS_KEY_ID=KEY_ID,
                                       AWS_SECRET_ACCESS_KEY="wrong")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"SignatureDoesNotMatch", done.stderr)


class Programs(Serving):
    """Unmodified clients, anonymous and with a key."""

    DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")

    def client(self, *command, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RCLONE_"))}
        settings = self.write("aws.settings", b"")
        environment.update(AWS_CONFIG_FILE=settings, AWS_SHARED_CREDENTIALS_FILE=settings, AWS_DEFAULT_REGION="us-east-1",
                           AWS_EC2_METADATA_DISABLED="true", LC_ALL="C.UTF-8", **variables)
        done = subprocess.run([path_of(command[0]), *command[1:]], capture_output=True, text=True, timeout=2 * LIMIT_S,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_copied(self, folder):
        found = {}
        for directory, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(directory, name), "rb") as file:
                    found[os.path.relpath(file.name, folder)] = file.read()
        self.assertEqual(found, self.files)

    @needs("aws")
    def test_aws(self):
        server = self.serve(self.repository())
        command = ("aws", "--endpoint-url", f"{server.url}.s3", "--no-sign-request", "s3")
        self.assertIn(" tiny\n", self.client(*command, "ls"))
        self.assertIn("PRE sub/\n", self.client(*command, "ls", "s3://tiny/"))
        self.client(*command, "sync", "s3://tiny", self.path("copy"))
        self.assert_copied(self.path("copy"))
        self.client(*command, "cp", "s3://tiny/sub/a b & c+d.txt", self.path("one"))
        self.assertEqual(self.read("one"), self.files["sub/a b & c+d.txt"])
        self.client(*command, "cp", "--recursive", "s3://tiny/sub/", self.path("below"))
        self.assertEqual(sorted(os.listdir(self.path("below"))), sorted(name[4:] for name in self.files if name.startswith("sub/")))

    @needs("aws", "rclone")
    def test_commands_of_the_page_print_what_it_shows(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "serve.md")) as file:
            section, = re.findall(r"^## As an object store\n(.*?)^## ", file.read(), re.MULTILINE | re.DOTALL)
        block, = re.findall(r"(?:^    .*\n)+", section.partition("--s3-keys")[0], re.MULTILINE)
        server = self.serve(self.sample("demo.gguf", format="gguf"))
        address = f"{server.host}:{server.port}"
        os.mkdir(self.path("bin"))
        os.symlink(WEIGHTFS, self.path("bin", "weightfs"))
        commands = []
        for line in textwrap.dedent(block).splitlines():
            if re.match(r"aws|rclone|[A-Z_]+=\S+ weightfs", line):
                commands.append((re.sub(r"HOST:8421|127\.0\.0\.1:8421", address, line), []))
            else:
                commands[-1][1].append(line)
        self.assertEqual([len(shown) for _, shown in commands], [1, 0, 0, 0])
        for command, shown in commands:
            printed = self.client("sh", "-ec", f"cd {self.path('.')}; {command}",
                                  PATH=f"{self.path('bin')}:{os.environ['PATH']}", WEIGHTFS_CACHE=self.path("cache"))
            if shown:
                self.assertEqual([self.DATE.sub("DATE", line) for line in printed.splitlines()],
                                 [self.DATE.sub("DATE", line) for line in shown])
            self.assertNotEqual(printed, "", command)
        self.assertEqual(self.read("demo", "demo.gguf"), self.read("demo.gguf"))

    @needs("aws")
    def test_aws_with_a_key(self):
        server = self.serve_signed()
        self.client("aws", "--endpoint-url", f"{server.url}.s3", "s3", "sync", "s3://tiny", self.path("copy"),
                    AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET)
        self.assert_copied(self.path("copy"))

    @needs("rclone")
    def test_rclone(self):
        server = self.serve(self.repository())
        remote = ("--s3-provider", "Other", "--s3-endpoint", f"{server.url}.s3", "--config", os.devnull)
        self.assertTrue(self.client("rclone", "lsd", ":s3:", *remote).endswith(" tiny\n"))
        self.client("rclone", "copy", ":s3:tiny", self.path("copy"), *remote)
        self.assert_copied(self.path("copy"))
        self.client("rclone", "check", ":s3:tiny", self.path("copy"), "--download", *remote)

    @needs("rclone")
    def test_rclone_with_a_key(self):
        server = self.serve_signed()
        self.client("rclone", "copy", ":s3:tiny", self.path("copy"), "--s3-provider", "Other", "--s3-endpoint", f"{server.url}.s3",
                    "--s3-env-auth", "--config", os.devnull, AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET)
        self.assert_copied(self.path("copy"))


class Directories(Serving):
    def test_models_of_a_directory_are_buckets(self):
        os.makedirs(self.path("models/more"))
        self.sample("models/a b.safetensors")
        self.sample("models/more/c.gguf", format="gguf")
        self.sample("models/more/d.safetensors")
        client = Client(self.serve(self.path("models")))
        self.assertEqual([each.text for each in client.xml("/").iter(f"{NAMES}Name")],
                         ["a-b-safetensors", "more.c-gguf", "more.d-safetensors"])
        self.assertEqual(list(client.list("a-b-safetensors", 10)[0]), ["a b.safetensors"])
        self.assertEqual(list(client.list("more.c-gguf", 10)[0]), ["c.gguf"])
        self.assertEqual(code_of(client.ask("/more")), (404, "NoSuchBucket"))

    def test_complete_views_are_below_a_prefix(self):
        client = Client(self.serve(self.sample("m.safetensors")))
        self.assertEqual(list(client.list("m-safetensors", 10)[0]), ["m.safetensors"])
        views = client.list("m-safetensors", 10, prefix="views/")[0]
        content = client.ask("/m-safetensors/views/model.gguf").body
        self.assertEqual((content[:4], len(content)), (b"GGUF", views["views/model.gguf"]))


if __name__ == "__main__":
    unittest.main()
