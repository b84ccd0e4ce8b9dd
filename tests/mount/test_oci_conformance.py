"""`weightfs serve` against the OCI distribution-spec 1.1 (opencontainers/distribution-spec, spec.md): the categories Pull and
Content Discovery, for artifacts of an image layout and for the manifest that is made of a GGUF. A row is a request, and what a
section demands of the response."""
import hashlib
import json
import random
import re
import unittest
from typing import NamedTuple

from http_serving import HttpServer
from mounting import Tensor, TestCase
import artifacts
import stores

INDEX, MANIFEST = artifacts.INDEX, artifacts.MANIFEST
BOTH = f"{INDEX}, {MANIFEST}"
SIGNATURE, SBOM_CONFIG = "application/vnd.test.signature.v1", "application/vnd.test.sbom.config"
UNKNOWN, OTHER_ALGORITHM = "sha256:" + "0" * 64, "sha512:" + "0" * 128
CODES = {"BLOB_UNKNOWN", "BLOB_UPLOAD_INVALID", "BLOB_UPLOAD_UNKNOWN", "DIGEST_INVALID", "MANIFEST_BLOB_UNKNOWN",
         "MANIFEST_INVALID", "MANIFEST_UNKNOWN", "NAME_INVALID", "NAME_UNKNOWN", "SIZE_INVALID", "UNAUTHORIZED", "DENIED",
         "UNSUPPORTED", "TOOMANYREQUESTS"}


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Subject(NamedTuple):
    """A repository of a server, as it was published. The first of the sorted tags is `tag`."""
    server: HttpServer
    name: str
    manifests: dict       # bytes by tag
    blob: bytes           # the weights
    config: bytes
    referrers: list = []  # descriptors of the manifests whose subject is that of `tag`

    @property
    def tags(self):
        return sorted(self.manifests)

    @property
    def tag(self):
        return self.tags[0]

    @property
    def manifest(self):
        return self.manifests[self.tag]

    def filled(self, text):
        """A text with the names, digests and sizes of this repository."""
        return text.format(name=self.name, tag=self.tag, manifest=digest_of(self.manifest), blob=digest_of(self.blob),
                           config=digest_of(self.config), size=len(self.manifest), blob_size=len(self.blob),
                           config_size=len(self.config), last_byte=len(self.blob) - 1, near_end=len(self.blob) - 500)

    def referring(self, artifact_type=None):
        found = [each for each in self.referrers if artifact_type in (None, each["artifactType"])]
        return {"schemaVersion": 2, "mediaType": INDEX, "manifests": found}

    def listed(self, *tags):
        return {"name": self.name, "tags": list(tags)}


class Row(NamedTuple):
    """`path`, `fields` and `headers` are filled in by Subject.filled()."""
    section: str         # of spec.md
    endpoint: str        # its id there
    path: str            # below /v2/
    status: tuple
    headers: dict = {}   # of the response; None: must be missing
    body: object = None  # function of the Subject: bytes, or the value of JSON; None: not compared
    fields: dict = {}    # of the request
    method: str = "GET"

    @property
    def label(self):
        fields = "".join(f" {name}: {value}" for name, value in self.fields.items())
        return f"{self.endpoint} {self.method} /v2/{self.path[:60]}{fields[:60]}"


PULLING_MANIFESTS, PULLING_BLOBS, CHECKING = "Pulling manifests", "Pulling blobs", "Checking if content exists in the registry"
TAGS, REFERRERS = "Listing Tags", "Listing Referrers"
OF_MANIFEST = {"Docker-Content-Digest": "{manifest}", "Content-Length": "{size}", "Content-Type": MANIFEST}
OF_BLOB = {"Docker-Content-Digest": "{blob}", "Content-Length": "{blob_size}"}
OF_INDEX = {"Content-Type": INDEX}
OK, MISSING, INVALID = (200,), (404,), (400, 404)


def manifests(reference, status=OK, **fields):
    is_found = status == OK
    return Row(PULLING_MANIFESTS, "end-3", f"{{name}}/manifests/{reference}", status, OF_MANIFEST if is_found else {},
               (lambda subject: subject.manifest) if is_found else None, fields)


def part(range_field, first, last):
    """A row of a range of the weights, for which a response of the whole is not enough."""
    return Row(PULLING_BLOBS, "end-2", "{name}/blobs/{blob}", (206,), {"Content-Range": f"bytes {first}-{last}/{{blob_size}}"},
               lambda subject: subject.blob[int(subject.filled(first)):int(subject.filled(last)) + 1], {"Range": range_field})


def missing(section, endpoint, path, status=MISSING, method="GET"):
    return Row(section, endpoint, path, status, method=method)


def tags(query, body, headers={"Content-Type": "application/json"}):
    return Row(TAGS, "end-8b" if query else "end-8a", "{name}/tags/list" + query, OK, headers, body)


ROWS = [
    Row("Determining Support", "end-1", "", OK),
    manifests("{tag}"),
    manifests("{manifest}"),
    manifests("{tag}", Accept=BOTH),
    manifests("{tag}", Accept=MANIFEST),
    manifests("{tag}", Accept="*/*"),
    manifests("{manifest}", Accept=BOTH),
    manifests("no-such-tag", MISSING),
    manifests("no-such-tag", MISSING, Accept=BOTH),
    manifests(UNKNOWN, MISSING),
    manifests(OTHER_ALGORITHM, MISSING),
    manifests("{blob}", MISSING),    # weights
    manifests("{config}", MISSING),  # JSON that is not a manifest
    manifests(".no-tag", INVALID),
    manifests("a" * 129, INVALID),
    manifests("sha256:12", INVALID),
    missing(PULLING_MANIFESTS, "end-3", "no/such/repository/manifests/{tag}"),
    missing(PULLING_MANIFESTS, "end-3", "NO_/SUCH/manifests/{tag}", INVALID),
    Row(PULLING_BLOBS, "end-2", "{name}/blobs/{blob}", OK, OF_BLOB, lambda subject: subject.blob),
    Row(PULLING_BLOBS, "end-2", "{name}/blobs/{config}", OK,
        {"Docker-Content-Digest": "{config}", "Content-Length": "{config_size}"}, lambda subject: subject.config),
    missing(PULLING_BLOBS, "end-2", "{name}/blobs/" + UNKNOWN),
    missing(PULLING_BLOBS, "end-2", "{name}/blobs/" + OTHER_ALGORITHM),
    missing(PULLING_BLOBS, "end-2", "{name}/blobs/sha256:12", INVALID),
    missing(PULLING_BLOBS, "end-2", "{name}/blobs/no-digest", INVALID),
    missing(PULLING_BLOBS, "end-2", "no/such/repository/blobs/{blob}"),
    part("bytes=500-1499", "500", "1499"),
    part("bytes=500-", "500", "{last_byte}"),
    part("bytes=-500", "{near_end}", "{last_byte}"),
    part("bytes=2000-500000000", "2000", "{last_byte}"),
    Row(PULLING_BLOBS, "end-2", "{name}/blobs/{blob}", (416,), {"Content-Range": "bytes */{blob_size}"},
        fields={"Range": "bytes=500000000-500000001"}),
    Row(PULLING_BLOBS, "end-2", "{name}/blobs/{blob}", (200, 416), fields={"Range": "bytes=500-0"}),
    Row(CHECKING, "end-3", "{name}/manifests/{tag}", OK, OF_MANIFEST, method="HEAD"),
    Row(CHECKING, "end-3", "{name}/manifests/{manifest}", OK, OF_MANIFEST, method="HEAD"),
    Row(CHECKING, "end-3", "{name}/manifests/{tag}", OK, OF_MANIFEST, fields={"Accept": BOTH}, method="HEAD"),
    Row(CHECKING, "end-2", "{name}/blobs/{blob}", OK, OF_BLOB, method="HEAD"),
    missing(CHECKING, "end-3", "{name}/manifests/no-such-tag", method="HEAD"),
    missing(CHECKING, "end-3", "{name}/manifests/" + UNKNOWN, method="HEAD"),
    missing(CHECKING, "end-3", "no/such/repository/manifests/{tag}", method="HEAD"),
    missing(CHECKING, "end-2", "{name}/blobs/" + UNKNOWN, method="HEAD"),
    missing(CHECKING, "end-2", "no/such/repository/blobs/{blob}", method="HEAD"),
    tags("", lambda subject: subject.listed(*subject.tags)),
    tags("?n=0", lambda subject: subject.listed(), {"Link": None}),
    tags("?n=1", lambda subject: subject.listed(*subject.tags[:1])),
    tags("?n=1000", lambda subject: subject.listed(*subject.tags), {"Link": None}),
    tags("?last={tag}", lambda subject: subject.listed(*subject.tags[1:])),
    tags("?n=1&last={tag}", lambda subject: subject.listed(*subject.tags[1:2])),
    tags("?n=1000&last=~", lambda subject: subject.listed(), {"Link": None}),
    missing(TAGS, "end-8a", "no/such/repository/tags/list"),
    missing(TAGS, "end-8b", "no/such/repository/tags/list?n=1"),
    Row(REFERRERS, "end-12a", "{name}/referrers/{manifest}", OK, OF_INDEX, lambda subject: subject.referring()),
    Row(REFERRERS, "end-12a", "{name}/referrers/" + UNKNOWN, OK, OF_INDEX, lambda subject: subject.referring("none")),
    Row(REFERRERS, "end-12a", "{name}/referrers/" + OTHER_ALGORITHM, OK, OF_INDEX, lambda subject: subject.referring("none")),
    *(Row(REFERRERS, "end-12b", "{name}/referrers/{manifest}?artifactType=" + kind, OK,
          {**OF_INDEX, "OCI-Filters-Applied": "artifactType"}, lambda subject, kind=kind: subject.referring(kind))
      for kind in (SIGNATURE, SBOM_CONFIG, "application/vnd.test.none")),
    missing(REFERRERS, "end-12a", "{name}/referrers/no-digest", (400,)),
    missing(REFERRERS, "end-12a", "{name}/referrers/sha256:12", (400,)),
    missing(REFERRERS, "end-12a", "{name}/referrers/sha512:12", (400,)),
    missing("Pushing blobs", "end-4a", "{name}/blobs/uploads/", (404, 405), "POST"),
    missing("Pushing Manifests", "end-7a", "{name}/manifests/new", (404, 405), "PUT"),
    missing("Deleting tags", "end-9", "{name}/manifests/{tag}", (400, 404, 405), "DELETE"),
    missing("Deleting Blobs", "end-10", "{name}/blobs/{blob}", (400, 404, 405), "DELETE"),
]


def error_problem(response):
    """What is wrong with the body of a refusal: section "Error Codes"."""
    if response.headers.get_content_type() != "application/json" or not response.body:
        return None
    errors = json.loads(response.body)["errors"]
    codes = [each["code"] for each in errors]
    return None if codes and set(codes) <= CODES else f"codes {codes}"


def problem_of(row, subject):
    """What a response has that its row does not permit; None if nothing."""
    fields = {name.replace("-", "_"): subject.filled(value) for name, value in row.fields.items()}
    response = subject.server.get("/v2/" + subject.filled(row.path), method=row.method, **fields)
    if response.status not in row.status:
        return f"answered {response.status}: {response.body[:200]}"
    for name, expected in row.headers.items():
        found = response.headers[name]
        if found != (subject.filled(expected) if expected else None):
            return f"{name}: {found}"
    if row.method == "HEAD" and response.body:
        return "a body"
    expected = row.body and row.body(subject)
    found = json.loads(response.body) if isinstance(expected, dict) else response.body
    if expected is not None and found != expected:
        return f"another body: {response.body[:200]}"
    return error_problem(response) if 400 <= response.status < 500 else None


class Conformance(TestCase):
    def setUp(self):
        super().setUp()
        values = random.Random(3).randbytes(8192)
        self.weights = stores.gguf(self.tmp, [Tensor("token_embd.weight", "float32", (64, 32), values)])

    def serve(self, source):
        server = HttpServer(source, folder=self.tmp)
        self.addCleanup(server.close)
        return server

    def check(self, subject):
        problems = [f"{row.label} ({row.section}): {problem}" for row in ROWS if (problem := problem_of(row, subject))]
        if problems:
            self.fail(f"{len(problems)} of {len(ROWS)} requests:\n  " + "\n  ".join(problems))

    def check_pages(self, subject):
        """The pages of the tags, each requested by the Link of the one before."""
        found, target = [], f"/v2/{subject.name}/tags/list?n=1"
        for _ in subject.tags:
            page = subject.server.get(target)
            found += json.loads(page.body)["tags"]
            link = page.headers["Link"]
            if link is None:
                break
            target = re.fullmatch(r'<(/[^>]*)>; rel="next"', link)[1]
        self.assertEqual((found, link), (subject.tags, None))

    def published(self):
        """An image layout with two models, and two manifests that refer to one of them."""
        tagged = [(tag, artifacts.modelpack(name=tag).add("application/vnd.cncf.model.weight.v1.raw", self.weights, "m.gguf"))
                  for tag in ("a1", "b2")]
        model = tagged[0][1].manifest()
        referrers = []
        for tag, artifact, kind, note in (("signature", artifacts.Artifact(SIGNATURE, annotations={"org.test.is": "signed"}),
                                           SIGNATURE, "signed"),
                                          ("sbom", artifacts.Artifact(None, SBOM_CONFIG, annotations={"org.test.is": "listed"}),
                                           SBOM_CONFIG, "listed")):
            artifact.fields["subject"] = {"mediaType": MANIFEST, "digest": digest_of(model), "size": len(model)}
            text = artifact.add("application/octet-stream", tag.encode()).manifest()
            referrers.append({"mediaType": MANIFEST, "digest": digest_of(text), "size": len(text), "artifactType": kind,
                              "annotations": {"org.test.is": note}})
            tagged.append((tag, artifact))
        config = next(data for data in tagged[0][1].blobs.values() if data != self.weights)
        server = self.serve(artifacts.layout(self.path("tiny"), *tagged))
        return Subject(server, "tiny", {tag: artifact.manifest() for tag, artifact in tagged}, self.weights, config, referrers)

    def made(self):
        """A GGUF of the disk. Its manifest is compared with what it names."""
        server = self.serve(self.write("Tiny.gguf", self.weights))
        manifest = server.get("/v2/tiny/manifests/latest").body
        fields = json.loads(manifest)
        self.assertEqual((fields["schemaVersion"], fields["mediaType"]), (2, MANIFEST))
        layer, = fields["layers"]
        self.assertEqual((layer["digest"], layer["size"]), (digest_of(self.weights), len(self.weights)))
        config = server.get(f"/v2/tiny/blobs/{fields['config']['digest']}").body
        self.assertEqual((digest_of(config), len(config)), (fields["config"]["digest"], fields["config"]["size"]))
        return Subject(server, "tiny", {"latest": manifest}, self.weights, config)

    def test_published_artifacts_conform(self):
        subject = self.published()
        self.check(subject)
        self.check_pages(subject)

    def test_made_artifact_conforms(self):
        subject = self.made()
        self.check(subject)
        self.check_pages(subject)


if __name__ == "__main__":
    unittest.main()
