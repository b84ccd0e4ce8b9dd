"""`weightfs serve` as the Hugging Face Hub: the steps of its clients, in pure Python, and weightfs itself. semantics 29.12"""
import hashlib
import json
import os
import re
import unittest
import urllib.error
import urllib.parse
import urllib.request

from http_serving import HttpServer, ServingTestCase
from mounting import LIMIT_S, Hole, Tensor, run
import stores
from test_hub import HubTestCase

LARGE = 11 << 20  # more than the Hub stores in Git


def git_id(content):
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


class Client:
    """The requests of huggingface_hub (hf_api.py, file_download.py): with its fields, and what it needs of the responses."""

    def __init__(self, endpoint, token=None):
        self.endpoint = endpoint.rstrip("/")
        self.fields = {"Authorization": f"Bearer {token}"} if token else {}

    def request(self, path, method="GET", data=None, **fields):
        url = path if path.startswith("http") else self.endpoint + path
        headers = {**self.fields, **{name.replace("_", "-"): value for name, value in fields.items()}}
        try:
            return urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=LIMIT_S)
        except urllib.error.HTTPError as error:
            return error

    def json(self, path, *words, **fields):
        with self.request(path, *words, **fields) as response:
            if response.status != 200:
                raise AssertionError(f"{path}: {response.status}, {response.read()}")
            return json.load(response)

    def code(self, path, method="GET"):
        """The status and the code of a refusal."""
        with self.request(path, method) as response:
            return response.status, response.headers["X-Error-Code"]

    def model_info(self, id, revision="main"):
        return self.json(f"/api/models/{id}/revision/{revision}?blobs=true")

    def tree(self, id, revision, below="", limit=""):
        """All pages of list_repo_tree()."""
        entries, url = [], f"/api/models/{id}/tree/{revision}{below}?recursive=true&expand=false{limit}"
        while url:
            with self.request(url) as response:
                entries += json.load(response)
                link = re.fullmatch(r'<(.+)>; rel="next"', response.headers["Link"] or "")
                url = link and link[1]
        return {entry["path"]: entry for entry in entries}

    def metadata(self, id, revision, path):
        """get_hf_file_metadata(): the commit, ETag and size, of which none may be missing."""
        with self.request(f"/{id}/resolve/{revision}/{path}", "HEAD", Accept_Encoding="identity") as response:
            if response.status != 200:
                raise AssertionError(f"{path}: {response.status}")
            headers = response.headers
            commit, etag = headers["X-Repo-Commit"], headers["X-Linked-Etag"] or headers["ETag"]
            return commit, etag.strip('"'), int(headers["X-Linked-Size"] or headers["Content-Length"])

    def download(self, id, revision, path, have=b""):
        """http_get(), which resumes behind what it has."""
        fields = {"Range": f"bytes={len(have)}-"} if have else {}
        with self.request(f"/{id}/resolve/{revision}/{path}", **fields) as response:
            if response.status != (206 if have else 200):
                raise AssertionError(f"{path}: {response.status}")
            return have + response.read()


class Serving(ServingTestCase):
    def repository(self):
        """A directory of a model: large weights without a digest, and small files."""
        os.makedirs(self.path("tiny/sub"))
        tensors = [Tensor("large", "uint8", (LARGE,), Hole(LARGE)), Tensor("small", "uint8", (5,), b"hello")]
        self.files = {"config.json": b'{"model_type": "llama"}', "sub/notes.txt": b"notes",
                      "model.safetensors": stores.safetensors(self.path("tiny"), tensors)}
        for name, content in self.files.items():
            self.write(f"tiny/{name}", content)
        return self.path("tiny")


class LocalModels(Serving):
    def setUp(self):
        super().setUp()
        self.source = self.repository()
        self.server = self.serve(self.source)
        self.hub = Client(self.server.url)

    def test_endpoint_is_printed(self):
        self.assertIn(f"export HF_ENDPOINT={self.server.url[:-1]}\n", self.server.error_text())

    def test_snapshot_has_the_bytes_of_the_files(self):
        """snapshot_download(): the commit, the list at that commit, then each file."""
        info = self.hub.model_info("local/tiny")
        commit = info["sha"]
        self.assertRegex(commit, "^[0-9a-f]{40}$")
        self.assertEqual({each["rfilename"] for each in info["siblings"]}, set(self.files))
        tree = self.hub.tree("local/tiny", commit)
        self.assertEqual({path for path, entry in tree.items() if entry["type"] == "file"}, set(self.files))
        self.assertEqual(tree, self.hub.tree("local/tiny", "main", limit="&limit=1"))
        for path, content in self.files.items():
            found, etag, size = self.hub.metadata("local/tiny", commit, path)
            self.assertEqual((found, size, tree[path]["size"]), (commit, len(content), len(content)))
            self.assertEqual(self.hub.download("local/tiny", commit, path), content)
            self.assertEqual(tree[path]["oid"], git_id(content) if size < LARGE else None)
            if size < LARGE:
                self.assertEqual(etag, git_id(content))
            else:
                self.assertNotIn(len(etag), (40, 64), "a digest that was not computed")

    def test_download_is_resumed(self):
        content = self.files["model.safetensors"]
        self.assertEqual(self.hub.download("local/tiny", "main", "model.safetensors", content[:LARGE // 2]), content)

    def test_absent_things_have_their_codes(self):
        self.assertEqual(self.hub.code("/api/models/local/other"), (404, "RepoNotFound"))
        self.assertEqual(self.hub.code("/local/other/resolve/main/config.json", "HEAD"), (404, "RepoNotFound"))
        self.assertEqual(self.hub.code(f"/local/tiny/resolve/{'0' * 40}/config.json", "HEAD"), (404, "RevisionNotFound"))
        self.assertEqual(self.hub.code("/local/tiny/resolve/main/adapter_config.json", "HEAD"), (404, "EntryNotFound"))
        self.assertEqual(self.hub.code("/api/models/local/tiny/tree/main/additional_chat_templates"), (404, "EntryNotFound"))
        with self.hub.request("/local/tiny/resolve/main/adapter_config.json", "HEAD") as response:
            self.assertEqual(response.headers["X-Repo-Commit"], self.hub.model_info("local/tiny")["sha"])

    def test_paths_are_described(self):
        form = urllib.parse.urlencode([("paths", "config.json"), ("paths", "sub"), ("paths", "none"), ("expand", "True")]).encode()
        body = json.dumps({"paths": ["config.json", "sub", "none"], "expand": True}).encode()
        target, commit = "/api/models/local/tiny/paths-info/main", self.hub.model_info("local/tiny")["sha"]
        for data, kind in ((form, "application/x-www-form-urlencoded"), (body, "application/json")):
            found = self.hub.json(target, "POST", data, Content_Type=kind)
            self.assertEqual([(entry["path"], entry["type"]) for entry in found], [("config.json", "file"), ("sub", "directory")])
            self.assertEqual(found[0]["lastCommit"]["id"], commit)
        with self.hub.request(target, "POST", b"paths=" + b"x" * (64 << 10)) as response:
            self.assertEqual(response.status, 413)

    def test_digest_of_a_large_file_is_computed_if_its_path_is_asked_for(self):
        target, path = "/api/models/local/tiny/paths-info/main", "model.safetensors"
        for expand, digest in ((False, None), (True, hashlib.sha256(self.files[path]).hexdigest())):
            body = json.dumps({"paths": [path], "expand": expand}).encode()
            entry, = self.hub.json(target, "POST", body, Content_Type="application/json")
            self.assertEqual(entry.get("lfs", {}).get("oid"), digest)
        self.assertIn("model.safetensors: SHA-256", self.server.error_text())

    def test_commit_changes_with_a_file(self):
        before = self.hub.model_info("local/tiny")["sha"]
        self.write("tiny/new.json", b"{}")
        os.replace(self.path("tiny/new.json"), self.path("tiny/config.json"))
        server = self.serve(self.source)
        after = Client(server.url).model_info("local/tiny")["sha"]
        self.assertNotEqual(before, after)
        self.assertEqual(Client(server.url).code(f"/local/tiny/resolve/{before}/config.json", "HEAD"), (404, "RevisionNotFound"))

    def test_weightfs_is_a_client(self):
        environment = {**os.environ, "HF_ENDPOINT": self.server.url, "WEIGHTFS_CACHE": self.path("cache")}
        done = run("info", "--json", "hf://local/tiny", env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        found, expected = json.loads(done.stdout), json.loads(run("info", "--json", self.source).stdout)
        for key in ("format", "tensors"):
            self.assertEqual(found[key], expected[key])
        done = run("cat", "hf://local/tiny", "small", text=False, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, b"hello"), done.stderr)
        done = run("info", "hf://local/other", env=environment)
        self.assertEqual((done.returncode, "no such repository" in done.stderr), (3, True), done.stderr)

    def test_weightfs_verifies_digests_that_are_stated(self):
        digest = hashlib.sha256(self.files["model.safetensors"]).hexdigest()
        self.write("tiny/SHA256SUMS", f"{digest}  model.safetensors\n".encode())
        server = self.serve(self.source)
        entry = Client(server.url).tree("local/tiny", "main")["model.safetensors"]
        self.assertEqual(entry["lfs"]["oid"], digest)
        self.assertEqual(Client(server.url).metadata("local/tiny", "main", "model.safetensors")[1], digest)
        environment = {**os.environ, "HF_ENDPOINT": server.url, "WEIGHTFS_CACHE": self.path("cache2")}
        done = run("verify", "hf://local/tiny", env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Tokens(Serving):
    def test_token_is_that_of_the_client(self):
        token = self.write("token", b"hf_secret\n")
        server = self.serve(self.sample("m.safetensors"), options=("--token-file", token))
        self.assertEqual(Client(server.url).code("/api/models/local/m.safetensors")[0], 401)
        self.assertEqual(Client(server.url, "hf_other").code("/m/n/resolve/main/config.json")[0], 401)
        self.assertEqual(Client(server.url, "hf_secret").model_info("local/m.safetensors")["id"], "local/m.safetensors")


class Directories(Serving):
    def test_models_of_a_directory_are_repositories(self):
        os.makedirs(self.path("models/more"))
        self.sample("models/a b.safetensors")
        self.sample("models/more/c.gguf", format="gguf")
        self.sample("models/more/d.safetensors")  # a directory with one model would be that model
        hub = Client(self.serve(self.path("models")).url)
        self.assertEqual(list(hub.tree("local/a-b.safetensors", "main")), ["a b.safetensors"])
        self.assertEqual(list(hub.tree("local/more-c.gguf", "main")), ["c.gguf"])
        self.assertEqual(hub.code("/api/models/local/more"), (404, "RepoNotFound"))

    def test_views_are_found_by_name(self):
        hub = Client(self.serve(self.sample("m.safetensors")).url)
        self.assertIn("model.gguf", hub.tree("views/m.safetensors", "main"))
        for id in ("views/m.safetensors", "local/m.safetensors"):
            content = hub.download(id, "main", "model.gguf")
            self.assertEqual((content[:4], len(content)), (b"GGUF", hub.metadata(id, "main", "model.gguf")[2]))


class OfTheHub(HubTestCase):
    def test_repository_keeps_its_name_commit_and_digests(self):
        """A server between the Hub and a client."""
        repository, written = self.publish(count=2)
        commit = repository.revisions["main"]
        os.mkdir(self.path("server"))
        server = HttpServer("hf://org/demo", folder=self.path("server"))
        self.addCleanup(server.close)
        client = Client(server.url)
        self.assertEqual(client.model_info("org/demo")["sha"], commit)
        self.assertNotEqual(client.model_info("local/demo")["sha"], commit)
        tree = client.tree("org/demo", commit)
        for path, file in repository.files().items():
            found = tree[path]["lfs"]["oid"] if file.is_lfs else tree[path]["oid"]
            self.assertEqual(found, file.sha256 if file.is_lfs else file.oid)
            self.assertEqual(client.metadata("org/demo", commit, path), (commit, found, len(file.content)))
            self.assertEqual(client.download("org/demo", commit, path), file.content)
        os.environ["HF_ENDPOINT"] = server.url
        done = run("cat", f"hf://org/demo@{commit}", written[0].name, text=False)
        self.assertEqual((done.returncode, done.stdout), (0, written[0].data), done.stderr)
        done = run("verify", "hf://org/demo")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
