"""The services of AWS that give keys, on 127.0.0.1: the token service (AssumeRole, AssumeRoleWithWebIdentity), the service of
containers, version 2 of instance metadata, the portal of single sign-on, and the API of registries (GetAuthorizationToken).

Each answer has new keys, which a store (s3_server.py) accepts until they expire.
"""
import base64
import datetime
import hashlib
import json
import re
import threading
import urllib.parse

from s3_server import REGION, Key, in_xml, signature
from scripted_server import Server

SESSION = "session-of-the-metadata"
ROLE = "role of the instance"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class KeysServer:
    """Ends with its test. `lifetime`: seconds of each key."""

    def __init__(self, test, store, lifetime=3600, tls=None):
        self.store, self.lifetime = store, lifetime
        self.issued = []
        self.web_token = "token-of-the-pod"      # that AssumeRoleWithWebIdentity accepts
        self.authorization = None                # of the service of containers
        self.login = "login-of-the-user"         # of single sign-on
        self.signers = {}                        # {id: (secret, token)} of AssumeRole and GetAuthorizationToken
        self.logins = []                         # pairs of a name and a password for registries
        self.login_ends = {}                     # {pair: seconds since 1970}
        self.login_region = REGION
        self.refusal = None                      # (status, code): every answer
        self.lock = threading.Lock()
        self.server = Server(test, self.respond, tls=tls)
        self.url = self.server.origin

    def issue(self):
        """New keys, which the store accepts: (id, Key)."""
        with self.lock:
            number = len(self.issued) + 1
            expiry = self.store.clock() + datetime.timedelta(seconds=self.lifetime)
            issued = f"ASIAOFTHETESTS{number:06}", Key(f"secret/of={number}", f"token+of/{number}=", expiry)
            self.store.keys[issued[0]] = issued[1]
            self.issued.append(issued)
            return issued

    def requests(self, part=""):
        return [request for request in self.server.requests() if part in request.target]

    def secrets(self):
        """All texts that must appear nowhere."""
        keys = [text for key_id, key in self.issued for text in (key_id, key.secret, key.token)]
        keys += [password for _, password in self.logins]
        return keys + [text for text in (self.web_token, self.authorization, self.login, SESSION) if text]

    def respond(self, request):
        status, kind, text = self.error(*self.refusal) if self.refusal else self.answer(request)
        return status, {"Content-Type": kind}, text.encode()

    def answer(self, request):
        if request.path.startswith("/latest/"):
            return self.metadata(request)
        if request.path.startswith("/container/"):
            if request.headers.get("authorization") != self.authorization:
                return 401, "application/json", '{"message": "the token is not valid"}'
            return 200, "application/json", json.dumps(self.as_json())
        if "x-amz-target" in request.headers:
            return self.registry_login(request)
        if request.path == "/federation/credentials":
            return self.portal(request)
        return self.token_service(request, dict(urllib.parse.parse_qsl(request.content.decode())) or request.query)

    def as_json(self):
        key_id, key = self.issue()
        return {"AccessKeyId": key_id, "SecretAccessKey": key.secret, "Token": key.token,
                "Expiration": key.expiry.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def metadata(self, request):
        if request.target == "/latest/api/token":
            valid = request.method == "PUT" and request.headers.get("x-aws-ec2-metadata-token-ttl-seconds") == "21600"
            return (200, "text/plain", SESSION) if valid else (400, "text/plain", "")
        if request.headers.get("x-aws-ec2-metadata-token") != SESSION:
            return 401, "text/plain", ""
        folder = "/latest/meta-data/iam/security-credentials/"
        if request.target == folder:
            return 200, "text/plain", ROLE + "\n"
        if urllib.parse.unquote(request.target) == folder + ROLE:
            return 200, "text/plain", json.dumps({"Code": "Success", "Type": "AWS-HMAC", **self.as_json()})
        return 404, "text/plain", ""

    def portal(self, request):
        if request.headers.get("x-amz-sso_bearer_token") != self.login:
            return 401, "application/json", '{"message": "Session token not found or invalid"}'
        if request.query != {"account_id": "123456789012", "role_name": "Reader"}:
            return 403, "application/json", '{"message": "No access"}'
        key_id, key = self.issue()
        return 200, "application/json", json.dumps({"roleCredentials": {
            "accessKeyId": key_id, "secretAccessKey": key.secret, "sessionToken": key.token,
            "expiration": int(key.expiry.timestamp() * 1000)}})

    def token_service(self, request, asked):
        action = asked.get("Action")
        if asked.get("Version") != "2011-06-15" or not asked.get("RoleArn", "").startswith("arn:aws:iam::"):
            return self.error(400, "ValidationError")
        if action == "AssumeRoleWithWebIdentity":
            if request.method != "POST" or "authorization" in request.headers:
                return self.error(400, "MalformedInput")
            if asked.get("WebIdentityToken") != self.web_token:
                return self.error(400, "InvalidIdentityToken")
        elif action != "AssumeRole" or not self.is_signed(request):
            return self.error(403, "SignatureDoesNotMatch")
        key_id, key = self.issue()
        texts = {"AccessKeyId": key_id, "SecretAccessKey": key.secret, "SessionToken": key.token,
                 "Expiration": key.expiry.strftime("%Y-%m-%dT%H:%M:%SZ")}
        keys = in_xml("Credentials", "".join(in_xml(name, text) for name, text in texts.items()))
        return 200, "text/xml", (f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
                                 f'{in_xml(f"{action}Result", keys)}</{action}Response>')

    def registry_login(self, request):
        """GetAuthorizationToken of ECR; that of the public registry has another target, and no list."""
        services = {"AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken": "ecr",
                    "SpencerFrontendService.GetAuthorizationToken": "ecr-public"}
        service = services.get(request.headers["x-amz-target"])
        right = (request.method, request.content, request.headers.get("content-type")) == (
            "POST", b"{}", "application/x-amz-json-1.1")
        if not service or not right or not self.is_signed(request, service):
            return 400, "application/json", '{"__type": "InvalidSignatureException", "message": "No"}'
        with self.lock:
            self.logins.append(("AWS", f"password-of-a-registry-{len(self.logins) + 1}"))
            name, password = self.logins[-1]
            end = self.store.clock().timestamp() + self.lifetime
            self.login_ends[name, password] = end
        data = {"authorizationToken": base64.b64encode(f"{name}:{password}".encode()).decode(), "expiresAt": end}
        return 200, "application/json", json.dumps({"authorizationData": [data] if service == "ecr" else data})

    def error(self, status, code):
        return status, "text/xml", in_xml("ErrorResponse", in_xml("Error", in_xml("Code", code) + in_xml("Message", "No")))

    def is_signed(self, request, service="sts"):
        found = re.fullmatch(rf"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{{8}}/([^/]+)/{service}/aws4_request, SignedHeaders=([^,]+), "
                             r"Signature=([0-9a-f]{64})", request.headers.get("authorization", ""))
        if not found or found[1] not in self.signers or (service != "sts" and found[2] != self.login_region):
            return False
        secret, token = self.signers[found[1]]
        if request.headers.get("x-amz-security-token") != token:
            return False
        headers = {"x-amz-content-sha256": EMPTY, **request.headers}
        if service != "sts" and headers["x-amz-content-sha256"] != hashlib.sha256(request.content).hexdigest():
            return False
        return found[4] == signature(secret, request.method, request.target, headers, found[3].split(";"),
                                     request.headers["x-amz-date"], found[2], service)
