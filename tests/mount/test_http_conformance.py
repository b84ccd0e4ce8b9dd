"""`weightfs serve` against the raw requests of http_requests.py, each on a connection of its own: the responses must be valid, have
a permitted status, and no part of a body may be answered as a request."""
import concurrent.futures
import re
import socket
import threading
import time
import unittest
from typing import NamedTuple

from http_serving import HttpServer
from mounting import TestCase
from http_requests import CLOSE, ETAG, FILE, HOST, MODIFIED, OPAQUE_TAG, ROWS, SECRET, filled, get, message

ROW_COUNT = 427
WAIT_S = 5       # for the next bytes of the server, which answers at once
PAUSE_S = 0.05   # before the next piece of a request
AT_ONCE = 16

STATUS_LINE = re.compile(r"HTTP/1\.1 ([1-5]\d\d) [\t -~\x80-\xff]*")
TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD = re.compile(rf"({TOKEN}):[ \t]*([\t -~\x80-\xff]*)")
DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT")
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
SINGLE = {"content-length", "content-range", "content-type", "date", "etag", "last-modified", "location", "transfer-encoding"}
REQUIRED = {206: "content-type", 301: "location", 304: "etag", 401: "www-authenticate", 405: "allow", 416: "content-range",
            503: "retry-after"}


class Invalid(Exception):
    """Bytes of the server that are not a valid response."""


def check(is_valid, problem):
    if not is_valid:
        raise Invalid(problem)


class Response(NamedTuple):
    status: int
    lines: list   # of the header, without the status line
    fields: dict  # by name in lower case; repeated fields are joined
    body: bytes

    @property
    def closes(self):
        return "close" in self.fields.get("connection", "").lower().split(", ")


class Received(NamedTuple):
    """What a client has received, and the end of the connection: "closed", "reset", or "open" if nothing more arrived in time."""
    data: bytes
    end: str


def exchange(server, pieces, half_closes, pause=PAUSE_S):
    """Sends the pieces, half-closes the connection if the server is not to close it, and returns what arrives meanwhile."""
    with socket.create_connection((server.host, server.port), timeout=WAIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def send():
            try:
                for number, piece in enumerate(pieces):
                    if number > 0 and pause > 0:
                        time.sleep(pause)
                    connection.sendall(piece)
                if half_closes:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server has closed the connection, which recv() reports

        sender = threading.Thread(target=send)
        sender.start()
        data, end = b"", "closed"
        try:
            while received := connection.recv(65536):
                data += received
        except ConnectionError:
            end = "reset"
        except TimeoutError:
            end = "open"
        sender.join()
        return Received(data, end)


def header_of(text):
    """The lines and the fields of a header."""
    lines = text.split("\r\n")
    fields = {}
    for line in lines:
        match = FIELD.fullmatch(line)
        check(match, f"not a field: {line!r}")
        name, value = match[1].lower(), match[2].strip()
        check(name not in fields or name not in SINGLE, f"repeated: {line}")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return lines, fields


def dechunked(data):
    """A chunked body, and the bytes after it."""
    body = b""
    while True:
        line, end, data = data.partition(b"\r\n")
        check(end and re.fullmatch(rb"[0-9A-Fa-f]{1,16}", line), f"not a chunk size: {line[:40]}")
        size = int(line, 16)
        check(data[size:size + 2] == b"\r\n", "a chunk without its end")
        body, data = body + data[:size], data[size + 2:]
        if size == 0:
            return body, data


def check_part(content_range, body, size=None):
    match = CONTENT_RANGE.fullmatch(content_range)
    check(match, f"Content-Range: {content_range}")
    first, last, whole = map(int, match.groups())
    check(first <= last < whole and last - first + 1 == len(body), f"{len(body)} bytes of the range {content_range}")


def check_parts(boundary, body):
    """RFC 9110, section 14.6."""
    preamble, *parts, end = (b"\r\n" + body).split(b"\r\n--" + boundary.encode())
    check(not preamble.strip() and end.startswith(b"--") and len(parts) > 1, "not a multipart body")
    for part in parts:
        header, end, content = part.partition(b"\r\n\r\n")
        check(end and header.startswith(b"\r\n"), "a part without a header")
        check_part(header_of(header[2:].decode("latin-1"))[1].get("content-range", ""), content)


def check_response(response, is_head):
    status, fields = response.status, response.fields
    check(status < 200 or DATE.fullmatch(fields.get("date", "")), f"{status}, Date: {fields.get('date')}")
    check(status not in REQUIRED or REQUIRED[status] in fields, f"{status} without {REQUIRED.get(status)}")
    check(not response.body or "content-type" in fields, f"{status} without Content-Type")
    check("x-injected" not in fields, "a field of the client")
    check(status >= 200 and status != 204 or not {"content-length", "transfer-encoding"} & set(fields), f"{status} with a length")
    if "location" in fields:  # in the server itself
        check(not re.match(r"//|[^/?]*:", fields["location"]), f"Location: {fields['location']}")
    if status == 206 and not is_head:
        boundary = re.fullmatch(r'multipart/byteranges; *boundary="?([^"]+)"?', fields["content-type"])
        check(bool(boundary) != ("content-range" in fields), "Content-Range of several parts, or none of one")
        if boundary:
            check_parts(boundary[1], response.body)
        else:
            check_part(fields["content-range"], response.body)


def next_response(data, is_head=False, is_old=False):
    """The first response in `data`, and the bytes after it. RFC 9112, section 6.3; is_old: the request is HTTP/1.0."""
    header, end, data = data.partition(b"\r\n\r\n")
    check(end, f"not a header: {header[:80]}")
    status_line, _, rest = header.decode("latin-1").partition("\r\n")
    match = STATUS_LINE.fullmatch(status_line)
    check(match, f"not a status line: {status_line[:80]!r}")
    status = int(match[1])
    lines, fields = header_of(rest) if rest else ([], {})
    length, coding = fields.get("content-length"), fields.get("transfer-encoding")
    check(length is None or coding is None, "both lengths")
    check(length is None or re.fullmatch(r"\d+", length), f"Content-Length: {length}")
    check(coding is None or (coding == "chunked" and not is_old), f"Transfer-Encoding: {coding}")
    body = b""
    if not (is_head or status < 200 or status in (204, 304)):
        if coding:
            body, data = dechunked(data)
        elif length:
            body, data = data[:int(length)], data[int(length):]
            check(len(body) == int(length), f"{len(body)} of {length} bytes")
        else:
            check("close" in fields.get("connection", "").lower(), f"{status} without a length")
            body, data = data, b""
    response = Response(status, lines, fields, body)
    check_response(response, is_head)
    return response, data


def responses_of(data, heads=(), is_old=False, expects_continue=False):
    """All responses in `data`. heads: whether the first requests are HEAD. Leaves out 100 if a request expects it."""
    responses = []
    while data:
        check(not responses or not responses[-1].closes, "bytes after a response with Connection: close")
        is_head = heads[len(responses)] if len(responses) < len(heads) else False
        response, data = next_response(data, is_head, is_old)
        if not (response.status == 100 and expects_continue):
            responses.append(response)
    return responses


def judge(row, received):
    """The reason why a response is not permitted for a row; None if it is."""
    first = b"".join(row.pieces)
    is_old = b" HTTP/1.0\r\n" in first
    try:
        responses = responses_of(received.data, (first.startswith(b"HEAD "),), is_old, b"\r\nExpect: 100-" in first and not is_old)
    except Invalid as problem:
        return f"not a valid response: {problem}"
    statuses = [response.status for response in responses]
    answer = f"answered {statuses or 'nothing'}, {received.end}"
    for number, permitted in enumerate(row.answers):
        if number == len(statuses) and CLOSE in permitted:
            break
        if number == len(statuses) or statuses[number] not in permitted:
            return f"{answer}; permitted: {', '.join(map(str, sorted(permitted, key=str)))}"
    if len(statuses) > len(row.answers):
        return f"{answer}; no response after number {len(row.answers)} is permitted"
    if received.end != "closed":
        return f"{answer}; the server must close the connection"
    if row.closes and not is_old and not responses[-1].closes:
        return f"{answer} without Connection: close"
    for pattern in row.fields:
        if not any(re.fullmatch(pattern, line, re.IGNORECASE) for line in responses[-1].lines):
            return f"{answer} without {pattern}: {responses[-1].lines}"
    return f"{answer} with a secret of the client" if SECRET.encode() in received.data else None


class Conformance(unittest.TestCase):
    """RFC 9110 and RFC 9112."""

    @classmethod
    def setUpClass(cls):
        owner = TestCase()
        owner.setUp()
        cls.addClassCleanup(owner.doCleanups)
        cls.server = HttpServer(owner.sample(), folder=owner.tmp)
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.addCleanup(self.check_server)

    def check_server(self):
        self.assertIsNone(self.server.process.poll(), self.server.error_text())
        self.assertEqual(self.server.get("/").status, 200)

    def responses(self, *pieces, heads=(), is_old=False, half_closes=True, pause=PAUSE_S):
        received = exchange(self.server, pieces, half_closes, pause)
        self.assertEqual(received.end, "closed")
        return responses_of(received.data, heads, is_old)

    def body(self):
        return self.server.get(FILE).body

    def test_answer_to_each_request_is_permitted(self):
        validators = self.server.get(FILE)
        etag = validators.headers["ETag"]
        values = {ETAG: etag, OPAQUE_TAG: etag.strip('"'), MODIFIED: validators.headers["Last-Modified"]}

        def problem_of(row):
            pieces = [filled(piece, values) for piece in row.pieces]
            try:
                problem = judge(row, exchange(self.server, pieces, half_closes=not row.closes))
            except OSError as error:
                problem = f"no connection: {error}"
            return problem and f"{row.name} (RFC {row.rule}): {problem}"

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
            problems = list(threads.map(problem_of, ROWS))
        self.assertEqual(len(problems), ROW_COUNT)
        self.assertEqual(len({row.name for row in ROWS}), ROW_COUNT)
        if failures := list(filter(None, problems)):
            self.fail(f"{len(failures)} of {ROW_COUNT} requests:\n  " + "\n  ".join(failures))

    def test_pipelined_requests_are_answered_in_order(self):
        targets = [("GET", FILE), ("HEAD", FILE), ("GET", "/missing"), ("OPTIONS", "*"), ("GET", "/"), ("GET", "/tensors/bytes"),
                   ("GET", FILE)]
        responses = self.responses(b"".join(message(f"{method} {target} HTTP/1.1") for method, target in targets),
                                   heads=[method == "HEAD" for method, _ in targets])
        self.assertEqual([response.status for response in responses], [200, 200, 404, 204, 200, 200, 200])
        for (method, target), response in zip(targets, responses):
            if response.status != 204:
                self.assertEqual(response.body, self.server.get(target, method).body, target)

    def test_connection_persists_until_it_is_to_be_closed(self):
        responses = self.responses(get(target=FILE), get(), get("Connection: keep-alive", target=FILE),
                                   get("Connection: close", target=FILE), get(target=FILE), half_closes=False)
        self.assertEqual([response.status for response in responses], [200] * 4)
        self.assertEqual([response.closes for response in responses], [False, False, False, True])

    def test_connection_of_http_1_0_is_closed(self):
        for host in (HOST, None):
            request = message(f"GET {FILE} HTTP/1.0", host=host)
            responses = self.responses(request, request, is_old=True, half_closes=False)
            self.assertEqual([response.body for response in responses], [self.body()])

    def test_connection_of_http_1_0_persists_on_request(self):
        kept = message(f"GET {FILE} HTTP/1.0", "Connection: keep-alive")
        responses = self.responses(kept, kept, message(f"GET {FILE} HTTP/1.0"), is_old=True, half_closes=False)
        self.assertEqual([response.body for response in responses], [self.body()] * 3)
        self.assertEqual([response.fields.get("connection") for response in responses], ["keep-alive", "keep-alive", "close"])

    def test_listing_for_http_1_0_ends_with_the_connection(self):
        [response] = self.responses(message("GET / HTTP/1.0", "Connection: keep-alive"), is_old=True, half_closes=False)
        self.assertEqual(response.body, self.server.get("/").body)

    def test_absolute_target_names_the_same_file(self):
        for authority in (HOST, f"{HOST}:{self.server.port}", f"{self.server.host}:{self.server.port}"):
            [response] = self.responses(get(target=f"http://{authority}{FILE}", host=authority))
            self.assertEqual((response.status, response.body), (200, self.body()))

    def test_options_of_the_server_name_the_methods(self):
        [response] = self.responses(message("OPTIONS * HTTP/1.1"))
        self.assertIn(response.status, (200, 204))
        self.assertEqual(sorted(response.fields["allow"].split(", ")), ["GET", "HEAD", "OPTIONS"])

    def test_requests_in_pieces_of_one_byte_are_answered(self):
        request = get("X-Test: a", target=FILE) + message(f"HEAD {FILE} HTTP/1.1") + get(target=FILE)
        responses = self.responses(*(bytes([byte]) for byte in request), heads=(False, True), pause=0)
        self.assertEqual([response.body for response in responses], [self.body(), b"", self.body()])


if __name__ == "__main__":
    unittest.main()
