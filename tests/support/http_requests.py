"""Raw requests to an HTTP/1.1 server that only reads, each with the permitted answers: the cases of Http11Probe and h1spec, and
RFC 9110/9112 by section.

The requests name these files of the served model: /tensors/bias has 16 bytes, /tensors/empty has none. ETAG, OPAQUE_TAG and
MODIFIED stand for the validators of the first one: filled() replaces them.
"""
import random
from typing import NamedTuple

HOST = "localhost"
FILE = "/tensors/bias"
ETAG, OPAQUE_TAG, MODIFIED = "<entity tag>", "<entity tag without quotes>", "<modification time>"

CLOSE = "close"  # as an answer: the connection ends instead of a response
SECRET = "secret-of-the-client"  # no response may contain it
KIB = 1024


class Row(NamedTuple):
    name: str           # the situation
    pieces: tuple       # bytes; the server has time to answer each piece before the next one is sent
    answers: tuple      # for each response, the permitted statuses, and CLOSE; a further response is not permitted
    rule: str           # sections of RFC 9110, RFC 9112 and others
    closes: bool        # the server must close the connection; else the client half-closes it after the last piece
    fields: tuple = ()  # patterns of lines that the header of the last response must have


def filled(piece, values):
    """A piece with the validators of FILE."""
    for name, value in values.items():
        piece = piece.replace(name.encode(), value.encode())
    return piece


def row(rule, name, request, answers, closes, fields):
    pieces = request if isinstance(request, tuple) else (request,)
    return Row(name, pieces, tuple(frozenset(each) for each in answers), rule, closes, fields)


def answered(rule, name, request, *statuses, fields=()):
    """One response, and no other one after it."""
    return row(rule, name, request, [statuses], False, fields)


def refused(rule, name, request, *statuses, fields=()):
    """One response, after which the server closes the connection: it cannot find the end of the request."""
    return row(rule, name, request, [statuses or (400,)], True, fields)


def in_turn(rule, name, request, *answers, closes=False):
    """Several responses: for each, the permitted statuses."""
    return row(rule, name, request, answers, closes, ())


def message(line, *fields, body="", host=HOST):
    """A request: its line, the Host field, unless it is None, and other fields."""
    lines = [line, *([] if host is None else [f"Host: {host}"]), *fields]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1")


def get(*fields, target="/", **more):
    return message(f"GET {target} HTTP/1.1", *fields, **more)


def post(*fields, **more):
    return message("POST / HTTP/1.1", *fields, **more)


def chunked(body):
    return post(CHUNKED, body=body)


CHUNKED = "Transfer-Encoding: chunked"
FIVE = "Content-Length: 5"
EXPECTS = "Expect: 100-continue"
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", f"Sec-WebSocket-Key: {22 * 'A'}==", "Sec-WebSocket-Version: 13")

METHODS = [
    answered("9110 9.3.1", "GET", get(), 200, fields=("Content-Type: .+",)),
    answered("9110 9.3.2", "HEAD", message("HEAD / HTTP/1.1"), 200, fields=("Content-Type: .+",)),
    answered("9110 9.3.2, 8.6", "HEAD of a file", message(f"HEAD {FILE} HTTP/1.1"), 200, fields=("Content-Length: 16",)),
    answered("9110 9.3.7", "OPTIONS", message("OPTIONS / HTTP/1.1"), 200, 204, fields=("Allow: GET, HEAD, OPTIONS",)),
    answered("9112 3.2.4", "OPTIONS of the server", message("OPTIONS * HTTP/1.1"), 200, 204, fields=("Allow: .*GET.*",)),
    answered("9112 3.2.4", "GET of the server", message("GET * HTTP/1.1"), 400),
    answered("9112 3.2.4", "HEAD of the server", message("HEAD * HTTP/1.1"), 400),
    answered("9110 15.5.6", "DELETE", message("DELETE / HTTP/1.1"), 405, fields=("Allow: GET, HEAD, OPTIONS",)),
    answered("9110 15.5.6", "PUT", message("PUT /new HTTP/1.1", "Content-Length: 0"), 405, fields=("Allow: .+",)),
    answered("9110 15.5.6", "PATCH", message("PATCH / HTTP/1.1", "Content-Length: 0"), 405, fields=("Allow: .+",)),
    answered("9110 15.6.2", "unknown method", message("UNKNOWN / HTTP/1.1"), 501),
    answered("9110 9.1", "method in lower case", message("get / HTTP/1.1"), 501),
    answered("9110 9.1", "method in mixed case", message("Head / HTTP/1.1"), 501),
    answered("9110 9.3.6", "CONNECT", message("CONNECT example.com:443 HTTP/1.1", host="example.com:443"), 405, 501),
    answered("9110 9.3.8", "TRACE", message("TRACE / HTTP/1.1"), 405, 501),
    answered("9110 9.3.8", "TRACE with a body", message("TRACE / HTTP/1.1", FIVE, body="hello"), 405, 501),
    answered("9110 9.3.8", "TRACE with a secret", message("TRACE / HTTP/1.1", f"Authorization: Bearer {SECRET}"), 405, 501),
]

REQUEST_LINES = [
    refused("9112 2.2", "bare LF after the request line", f"GET / HTTP/1.1\nHost: {HOST}\r\n\r\n".encode()),
    refused("9112 2.2", "bare CR after the request line", f"GET / HTTP/1.1\rHost: {HOST}\r\n\r\n".encode()),
    refused("9112 2.2", "request line with a bare CR", get(target="/a\rb")),
    refused("9112 3", "two spaces before the target", message("GET  / HTTP/1.1")),
    refused("9112 3", "two spaces before the version", message("GET /  HTTP/1.1")),
    refused("9112 3", "tab before the target", message("GET\t/ HTTP/1.1")),
    refused("9112 3", "space before the method", message(" GET / HTTP/1.1")),
    refused("9112 3", "space after the version", message("GET / HTTP/1.1 ")),
    refused("9112 3", "no target", message("GET HTTP/1.1")),
    refused("9112 3", "word before the request line", message("Some wordGET / HTTP/1.1")),
    refused("9112 3", "word after the version", message("GET / HTTP/1.1 more")),
    refused("9110 9.1", "method that is not a token", message("GE[T / HTTP/1.1")),
    refused("9112 3.2", "space in the target", get(target="/pa th")),
    refused("9112 3.2", "NUL in the target", get(target="/\0test")),
    refused("9112 3.2", "control character in the target", get(target="/\x7ftest")),
    answered("9112 3.2", "UTF-8 in the target", get(target="/caf\xc3\xa9"), 400),
    answered("9112 3.2", "overlong UTF-8 in the target", get(target="/\xc0\xaf"), 400),
    answered("9112 3.2.1", "fragment in the target", get(target="/path#part"), 400),
    answered("9112 3.2.1", "relative target", get(target="tensors"), 400),
    answered("9112 3.2.3", "authority as the target of GET", get(target="localhost:80"), 400),
    answered("3986 2", "backslash in the target", get(target="/path\\file"), 400, 404),
    answered("9112 2.2", "empty line before the request", b"\r\n" + get(), 200),
    answered("9112 2.2", "two empty lines before the request", b"\r\n\r\n" + get(), 200, 400),
    answered("9112 2.2", "1000 empty lines before the request", 1000 * b"\r\n" + get(), 200, 400),
    answered("9112 2.2", "empty line after a request", (get(), b"\r\n"), 200),
    in_turn("9112 2.2", "empty line between requests", get() + b"\r\n" + get(), (200,), (200,)),
    answered("9112 2.2", "line of spaces", b"   \r\n\r\n", 400, CLOSE),
    refused("9112 2.3", "version in lower case", message("GET / http/1.1")),
    refused("9112 2.3", "version without a minor number", message("GET / HTTP/1")),
    refused("9112 2.3", "version with leading zeros", message("GET / HTTP/01.01")),
    refused("9112 2.3", "version with two digits", message("GET / HTTP/1.10")),
    refused("9112 2.3", "space in the version", message("GET / HTTP/ 1.1")),
    refused("9112 2.3", "version of another protocol", message("GET / HTTPS/1.1")),
    refused("9112 3", "empty version", b"GET / \r\n\r\n"),
    answered("9112 2.3", "no version", b"GET /\r\n", 400, CLOSE),
    refused("9110 15.6.6", "unknown version", message("GET / HTTP/9.9"), 400, 505),
    refused("9110 15.6.6", "version 2.0", message("GET / HTTP/2.0"), 400, 505),
    refused("9110 15.6.6", "preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, 505),
    answered("9110 2.5", "version 1.2", message("GET / HTTP/1.2"), 200, 505),
    answered("9112 3.2.2", "absolute target", get(target=f"http://{HOST}/"), 200),
    answered("9112 3.2.2", "absolute target with a port", get(target=f"http://{HOST}:80{FILE}"), 200,
             fields=("Content-Length: 16",)),
    answered("9112 3.2.2", "absolute target without a path", get(target=f"http://{HOST}"), 200),
    answered("9110 4.2.3", "absolute target in upper case", get(target="HTTP://LOCALHOST/"), 200),
    answered("9112 3.2.2", "absolute target with a query", get(target=f"http://{HOST}?q=bias"), 200),
    answered("9112 3.2.2", "absolute target of another host", get(target="http://other.example.com/"), 421),
    answered("9112 3.2.2", "Host of another host with an absolute target", get(target=f"http://{HOST}/", host="other.example.com"),
             200, 421),
    answered("9112 3.2", "absolute target without Host", get(target=f"http://{HOST}/", host=None), 400),
    answered("9110 4.2.4", "absolute target with a user", get(target=f"http://user@{HOST}/"), 400, 421),
    answered("9112 3.2.2", "absolute target of another scheme", get(target=f"ftp://{HOST}/"), 400, 421),
    answered("9112 3.2.2", "absolute target without a host", get(target="http:///"), 400),
]

FIELDS = [
    answered("9110 5.1, 5.5", "Host in mixed case, and a tab", get(f"hoSt:\t{HOST}", "empty:", host=None), 200),
    answered("9110 5.5", "empty field", get("X-Empty: "), 200),
    answered("9110 5.5", "tab in a field", get("X-Test: a\tb"), 200),
    answered("9110 5.5", "field that is not ASCII", get("X-Test: caf\xc3\xa9"), 200),
    answered("9110 5.6.2", "field name of unusual characters", get("!#$%&'*+-.^_`|~: a"), 200),
    answered("9110 5.3", "repeated field", get("X-Test: a", "X-Test: b"), 200),
    refused("9112 2.2", "bare LF after a field", f"GET / HTTP/1.1\r\nHost: {HOST}\nX-Test: a\r\n\r\n".encode()),
    answered("9112 2.2", "bare LF after the header", f"GET / HTTP/1.1\r\nHost: {HOST}\r\n\n".encode(), 400, 408, CLOSE),
    answered("9112 2.2", "bare LF after all lines", f"GET / HTTP/1.1\nHost: {HOST}\n\n".encode(), 400, 408, CLOSE),
    refused("9112 2.2", "bare CR in a field", post(FIVE, "X-Test: val\rue", body="hello")),
    refused("9112 2.2", "bare CR after the header", get("\rX-Test: a")),
    refused("9112 2.2", "line of spaces after the request line", get(" ", f"Host: {HOST}", host=None)),
    refused("9112 2.2", "space before the first field", get(f" Host: {HOST}", f"Host: {HOST}", host=None)),
    refused("9112 5.2", "folded field", get("X-Test: a", " b")),
    refused("9112 5.2", "field folded with a tab", get("X-Test: a", "\tb")),
    refused("9112 5.2", "folded Host", get("Host:", f" {HOST}", host=None)),
    refused("9112 5.1", "space before the colon", get("X-Test : a")),
    refused("9112 5.1", "tab before the colon", get("X-Test\t: a")),
    refused("9112 5.1", "space before the colon of Host", get(f"Host : {HOST}", host=None)),
    refused("9112 5", "empty field name", get(": a")),
    refused("9112 5", "no colon", get("no colon")),
    refused("9110 5.6.2", "bracket in a field name", get("X[Test: a")),
    refused("9110 5.6.2", "brackets after a field name", get("X-Invalid[]: a")),
    refused("9110 5.6.2", "space in a field name", get("X Test: a")),
    refused("9110 5.6.2", "tab in a field name", post("Content-Length: 11", "Content\tLength: 99", body="hello world")),
    refused("9110 5.6.2", "NUL in a field name", get("X-T\0est: a")),
    refused("9110 5.6.2", "field name that is not ASCII", get("X-T\xc3\xabst: a")),
    *[refused("9110 5.5", f"control character {code:#x} in a field", get(f"X-Test: a{code:c}b"))
      for code in (0, 1, 7, 8, 0xb, 0xc, 0x1b, 0x1f, 0x7f)],
    refused("9110 5.5", "several control characters in a field", get("X-Test: abc\x07\x08\x0bdef")),
    answered("9110 10.1.1", "unknown expectation", get("Expect: 200-ok"), 200, 417),
    answered("9110 10.1.1", "expectation without a body", get(EXPECTS), 200),
    answered("9110 7.8", "Upgrade without Connection", get(*WEBSOCKET[1:]), 200),
    answered("9110 7.8", "Upgrade to WebSocket", get(*WEBSOCKET), 200),
    answered("9110 7.8", "Upgrade to an unknown WebSocket", get(*WEBSOCKET[:3], "Sec-WebSocket-Version: 99"), 200, 426),
    answered("9110 7.8", "Upgrade to an unknown protocol", get("Connection: Upgrade", "Upgrade: unknown/1.0"), 200),
    answered("9110 7.8", "Upgrade to HTTP/2", get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA"),
             200),
    answered("9110 7.8", "Upgrade in HTTP/1.0", message("GET / HTTP/1.0", *WEBSOCKET), 200),
    answered("9110 7.8", "Upgrade with POST", post(*WEBSOCKET), 405),
    answered("9110 12.5.1", "unknown media type in Accept", get("Accept: application/x-unknown"), 200, 406),
]

HOSTS = [
    answered("9112 3.2", "no Host", get(host=None), 400),
    answered("9112 3.2", "no Host, and a length", get(FIVE, host=None), 400),
    answered("9112 3.2", "empty Host", get(host=""), 400),
    answered("9112 3.2", "two hosts", get("Host: other.example.com"), 400),
    answered("9112 3.2", "Host twice", get(f"Host: {HOST}"), 400),
    answered("9112 3.2", "two hosts in HTTP/1.0", message("GET / HTTP/1.0", "Host: other.example.com"), 400),
    answered("9110 7.2", "list of hosts", get(host=f"{HOST}, other.example.com"), 400),
    answered("9110 4.2.4", "Host with a user", get(host=f"user@{HOST}"), 400),
    answered("9110 7.2", "Host with a path", get(host=f"{HOST}/path"), 400),
    answered("9110 7.2", "Host with a query", get(host=f"{HOST}?q"), 400),
    answered("9110 7.2", "Host with a scheme", get(host=f"http://{HOST}"), 400),
    answered("9110 7.2", "Host with a space", get(host="local host"), 400),
    answered("9110 7.2", "port that is not a number", get(host=f"{HOST}:http"), 400),
    answered("9110 7.2", "Host with an open bracket", get(host="[::1"), 400),
    answered("9110 7.2", "Host with a port", get(host=f"{HOST}:8421"), 200),
    answered("9110 7.2", "Host with an empty port", get(host=f"{HOST}:"), 200),
    answered("9110 4.2.3", "Host in upper case", get(host="LOCALHOST"), 200),
    answered("9110 7.2", "address as Host", get(host="127.0.0.1"), 200),
    answered("9110 7.4", "another host", get(host="other.example.com"), 421),
    answered("9110 7.4", "another host in HTTP/1.0", message("GET / HTTP/1.0", host="other.example.com"), 421),
    answered("9110 7.4", "another address", get(host="192.0.2.1"), 421),
    answered("9112 3.2", "HTTP/1.0 without Host", message("GET / HTTP/1.0", host=None), 200),
]

# RFC 9112, section 6.3: the end of these requests is not certain.
INVALID_LENGTHS = {
    "text as the length": "abc", "plus sign": "+5", "minus sign": "-1", "negative length": "-1234", "negative zero": "-0",
    "negative length of 27 digits": "-123456789123456789123456789", "octal prefix": "0o5", "hexadecimal prefix": "0x5",
    "hexadecimal digits": "5f", "underscore": "1_0", "space": "1 0", "point": "5.0", "two values": "5, 10", "value twice": "5, 5",
    "value three times": "5, 5, 5", "no value": "", "length of 20 digits": "99999999999999999999", "length of 2^64": str(1 << 64)
}
AMBIGUOUS_CODINGS = {
    "chunked": "chunked", "trailing space": "chunked ", "leading tab": "\tchunked", "upper case letter": "Chunked",
    "chunked twice": "chunked, chunked", "leading comma": ", chunked", "trailing comma": "chunked,", "no value": "",
    "parameter": "chunked;ext=val"
}
UNKNOWN_CODINGS = {"xchunked": "xchunked", "identity": "identity", "gzip": "gzip", "quotes": '"chunked"', "semicolon": "chunked;"}
CONTROL_IN_CODINGS = {"vertical tab": "\x0bchunked", "form feed": "\x0cchunked", "NUL": "chunked\0", "bare CR": "chunked\rX: a"}

FRAMING = [
    *[refused("9110 8.6", f"Content-Length: {name}", post(f"Content-Length: {value}", body="helloworld"))
      for name, value in INVALID_LENGTHS.items()],
    *[refused("9110 8.6", f"Content-Length of GET: {name}", get(f"Content-Length: {INVALID_LENGTHS[name]}"))
      for name in ("text as the length", "negative length", "negative length of 27 digits", "two values")],
    *[refused("9112 6.1", f"length and Transfer-Encoding: {name}", post(f"Transfer-Encoding: {value}", FIVE, body="hello"))
      for name, value in AMBIGUOUS_CODINGS.items()],
    *[refused("9112 6.1", f"length and Transfer-Encoding: {name}",
              post(f"Transfer-Encoding: {value}", FIVE, body="hello"), 400, 501)
      for name, value in UNKNOWN_CODINGS.items()],
    *[refused("9110 5.5", f"Transfer-Encoding: {name}", post(f"Transfer-Encoding: {value}", FIVE, body="hello"))
      for name, value in CONTROL_IN_CODINGS.items()],
    refused("9110 8.6", "two lengths", post(FIVE, "Content-Length: 10", body="helloworld")),
    refused("9110 8.6", "two lengths of GET", get(FIVE, "Content-Length: 0", body="hello")),
    answered("9110 8.6", "length twice", post(FIVE, FIVE, body="hello"), 400, 405),
    refused("9112 5.1", "space before the colon of a second length",
            post("Content-Length: 11", "Content-Length : 5", body="hello world")),
    refused("9112 5.1", "space before the colon of Transfer-Encoding", post("Transfer-Encoding : chunked", FIVE, body="hello")),
    refused("9112 5.2", "folded Content-Length", post("Content-Length:", " 5", body="hello")),
    refused("9112 5.2", "folded Transfer-Encoding", post("Transfer-Encoding:", " chunked", FIVE, body="hello")),
    refused("9112 6.1", "both lengths", post("Content-Length: 23", CHUNKED, body="D\r\nhello, reader\r\n0\r\n\r\n")),
    refused("9112 6.1", "both lengths in mixed case",
            post("content-LengtH: 5", "TransFer-Encoding: chunked", body="5\r\nHello\r\n0\r\n\r\n")),
    refused("9112 6.1", "both lengths in upper case", post("Content-Length: 11", "TRANSFER-ENCODING: chunked", body="hello world")),
    refused("9112 6.1", "both lengths of GET", get(FIVE, CHUNKED, body="0\r\n\r\n")),
    refused("9112 6.1", "both lengths of HEAD", message("HEAD / HTTP/1.1", FIVE, CHUNKED, body="0\r\n\r\n")),
    answered("9110 9.3.2", "HEAD without Host", message("HEAD / HTTP/1.1", host=None), 400),
    refused("9112 6.1", "both lengths, the shorter Content-Length", post("Content-Length: 4", CHUNKED, body="0\r\n\r\n")),
    refused("9112 6.1", "both lengths, the longer Content-Length", post(CHUNKED, "Content-Length: 30", body="0\r\n\r\n")),
    refused("9112 6.1", "two transfer codings and a length", post(CHUNKED, "Transfer-Encoding: identity", FIVE, body="hello")),
    refused("9112 6.1", "two transfer codings", post("Transfer-Encoding: identity", CHUNKED, body="0\r\n\r\n"), 400, 501),
    refused("9112 6.1", "unknown transfer coding", post("Transfer-Encoding: gzip"), 400, 501),
    refused("9112 6.1", "unknown transfer coding of GET", get("Transfer-Encoding: gzip"), 400, 501),
    refused("9112 6.3", "chunked is not the last coding", post("Transfer-Encoding: chunked, gzip", body="0\r\n\r\n")),
    refused("9112 6.1", "coding before chunked", post("Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"), 400, 501),
    refused("9112 6.1", "chunked twice", post("Transfer-Encoding: chunked, chunked", body="0\r\n\r\n"), 400, 501),
    refused("9112 6.1", "empty Transfer-Encoding", post("Transfer-Encoding: ", body="hello"), 400, 501),
    refused("9112 6.1", "both lengths in HTTP/1.0", message("POST / HTTP/1.0", CHUNKED, FIVE, body="hello")),
    refused("9112 6.1", "chunked in HTTP/1.0", message("POST / HTTP/1.0", CHUNKED, body="0\r\n\r\n"), 400, 405),
]

# The server answers before it reads the body. It must not read the body as the next request.
VALID_CHUNKS = {
    "one chunk": "5\r\nhello\r\n0\r\n\r\n", "two chunks": "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "no chunk": "0\r\n\r\n",
    "size in lower case": "c\r\nHello World!\r\n0\r\n\r\n", "size in upper case": "A\r\nhelloworld\r\n0\r\n\r\n",
    "extension": "5;ext=value\r\nhello\r\n0\r\n\r\n", "trailer": "5\r\nhello\r\n0\r\nX-Sum: abc\r\n\r\n",
    "Content-Length in the trailer": "5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n",
    "Transfer-Encoding in the trailer": "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "Host in the trailer": "5\r\nhello\r\n0\r\nHost: other.example.com\r\n\r\n",
    "Authorization in the trailer": "5\r\nhello\r\n0\r\nAuthorization: Bearer other\r\n\r\n",
    "Content-Type in the trailer": "5\r\nhello\r\n0\r\nContent-Type: text/other\r\n\r\n"
}
INVALID_CHUNKS = {
    "semicolon without an extension": "5;\r\nhello\r\n0\r\n\r\n", "extension that is not a token": "5;bad[=x\r\nhello\r\n0\r\n\r\n",
    "underscore in the size": "1_0\r\nhello world!!!!!\r\n0\r\n\r\n", "prefix 0x": "0x5\r\nhello\r\n0\r\n\r\n",
    "plus sign": "+5\r\nhello\r\n0\r\n\r\n", "minus sign": "-1\r\nhello\r\n0\r\n\r\n",
    "space before the size": " 5\r\nhello\r\n0\r\n\r\n", "space after the size": "5 \r\nhello\r\n0\r\n\r\n",
    "no line end after the data": "5\r\nhello0\r\n\r\n",
    "more data than the size": "5\r\nhello!!\r\n0\r\n\r\n", "bare LF after an extension": "5;\nhello\r\n0\r\n\r\n",
    "bare LF after the data": "5\r\nhello\n0\r\n\r\n", "bare LF after the trailer": "5\r\nhello\r\n0\r\n\n",
    "NUL in an extension": "5;\0ext\r\nhello\r\n0\r\n\r\n", "bare CR in an extension": "5;a\rX\r\nhello\r\n0\r\n\r\n",
    "bare CR after the size": "5\rhello\r\n0\r\n\r\n", "size above 2^64": "FFFFFFFFFFFFFFFF0\r\nhello\r\n0\r\n\r\n",
    "no size": "hello\r\n0\r\n\r\n"
}

BODIES = [
    answered("9112 6.2", "POST with a body", post(FIVE, body="hello"), 405),
    answered("9112 6.2", "POST with an empty body", post("Content-Length: 0"), 405),
    answered("9112 6.3", "POST without a length", post(), 405),
    answered("9112 8", "POST with half of a body", post("Content-Length: 10", body="hello"), 400, 405),
    answered("9112 8", "POST with a large length and no body", post("Content-Length: 999999999"), 400, 405),
    answered("9112 8", "chunked body without its end", chunked("5\r\nhello\r\n"), 400, 405),
    answered("9110 8.6", "length with leading zeros", post("Content-Length: 005", body="hello"), 400, 405),
    answered("9110 8.6", "length that is octal or decimal", post("Content-Length: 0200", body=200 * "A"), 400, 405),
    answered("9110 8.6", "length of two zeros", post("Content-Length: 00"), 400, 405),
    answered("9110 5.5", "space after the length", post("Content-Length: 5 ", body="hello"), 400, 405),
    answered("9110 5.5", "two spaces before the length", post("Content-Length:  5", body="hello"), 400, 405),
    answered("9110 5.5", "tab before the length", post("Content-Length:\t5", body="hello"), 400, 405),
    answered("9110 5.1", "Transfer_Encoding", post("Transfer_Encoding: chunked", FIVE, body="hello"), 400, 405),
    answered("9110 5.1", "Transfer_Encoding after the length",
             post("Content-Length: 11", "Transfer_Encoding: chunked", body="hello world"), 400, 405),
    answered("9110 5.1", "Content_Length", post("Content-Length: 11", "Content_Length: 99", body="hello world"), 400, 405),
    answered("9110 5.3", "two types", post(FIVE, "Content-Type: text/plain", "Content-Type: text/html", body="hello"), 405),
    answered("9110 15.5.16", "unknown type", post(FIVE, "Content-Type: application/x-unknown", body="hello"), 405),
    answered("9110 14.2", "Range with POST", post(FIVE, "Range: bytes=0-10", body="hello"), 405),
    answered("9110 10.1.1", "expectation with a body", post(FIVE, EXPECTS, body="hello"), 405),
    answered("9110 15.2", "expectation in HTTP/1.0", message("POST / HTTP/1.0", EXPECTS, FIVE, body="hello"), 405),
    answered("9110 9.3.1", "GET with a body", get(FIVE, body="hello"), 200),
    answered("9110 9.3.1", "GET with a chunked body", get(CHUNKED, body="5\r\nhello\r\n0\r\n\r\n"), 200),
    answered("9110 9.3.2", "HEAD with a body", message("HEAD / HTTP/1.1", FIVE, body="hello"), 200),
    answered("9110 9.3.7", "OPTIONS with a body", message("OPTIONS / HTTP/1.1", FIVE, body="hello"), 200, 204),
    answered("9112 9.3", "unknown method with a body", message("UNKNOWN / HTTP/1.1", FIVE, body="hello"), 501),
    *[answered("9112 7.1", f"chunked body: {name}", chunked(body), 405) for name, body in VALID_CHUNKS.items()],
    *[refused("9112 7.1", f"invalid chunked body: {name}", chunked(body), 400, 405) for name, body in INVALID_CHUNKS.items()],
    answered("9112 7.1.1", "chunk extension of 64 KiB", chunked(f"5;ext={64 * KIB * 'a'}\r\nhello\r\n0\r\n\r\n"), 400, 405, 431),
]

# Requests in bodies. Only the outer request, and a request after the body, may be answered.
INNER = {method: f"{method} / HTTP/1.1\r\nHost: {HOST}\r\n\r\n" for method in ("GET", "HEAD")}
IN_CHUNKS = "0\r\n\r\n" + INNER["GET"]
SMUGGLING_CODINGS = {
    "trailing space": "chunked ", "leading comma": ", chunked", "upper case letter": "Chunked", "line fold": "\r\n chunked",
    "second coding": "chunked\r\nTransfer-Encoding: identity"
}
WITH_LENGTH = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 7\r\n\r\n"  # the last chunk would be its body
IN_ONE_CHUNK = f"{len(WITH_LENGTH):x}\r\n{WITH_LENGTH}\r\n0\r\n\r\n"
UNFINISHED = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n"


def length_of(body):
    return f"Content-Length: {len(body)}"


SMUGGLED = [
    *[refused("9112 6.1", f"{method} after the last chunk, with a length",
              post(length_of("0\r\n\r\n" + inner), CHUNKED, body="0\r\n\r\n" + inner)) for method, inner in INNER.items()],
    *[refused("9112 6.1", f"GET after the last chunk, with a length and Transfer-Encoding: {name}",
              post(f"Transfer-Encoding: {value}", length_of(IN_CHUNKS), body=IN_CHUNKS))
      for name, value in SMUGGLING_CODINGS.items()],
    refused("9112 6.1", "GET after the last chunk, length with a plus sign",
            post(f"Content-Length: +{len(IN_CHUNKS)}", CHUNKED, body=IN_CHUNKS)),
    refused("9112 6.1", "GET after the last chunk, length with a letter",
            post(length_of(IN_CHUNKS) + "x", CHUNKED, body=IN_CHUNKS)),
    refused("9112 6.1", "GET in a chunk, with the length of its size",
            post(CHUNKED, length_of(f"{len(WITH_LENGTH):x}\r\n"), body=IN_ONE_CHUNK)),
    refused("9110 8.6", "GET after the shorter of two lengths",
            post("Content-Length: 4", length_of("body" + INNER["GET"]), body="body" + INNER["GET"])),
    refused("9112 6.1", "GET after both lengths", (post(FIVE, CHUNKED, body="0\r\n\r\n"), get())),
    refused("9112 6.1", "GET after both lengths, the coding first", (post(CHUNKED, FIVE, body="0\r\n\r\n"), get())),
    refused("9112 6.1", "GET after a byte that only Content-Length includes",
            (post("Content-Length: 6", CHUNKED, body="0\r\n\r\nX"), get())),
    refused("9112 6.1", "GET after a byte behind the last chunk", (post(CHUNKED, "Content-Length: 30", body="0\r\n\r\nX"), get())),
    refused("9112 5.2", "GET after OPTIONS with a folded coding",
            (message("OPTIONS / HTTP/1.1", "Transfer-Encoding:", " chunked", FIVE, body="hello"), get())),
    refused("9112 7.1", "GET after an invalid chunk size and a byte", (chunked("+0\r\n\r\nX"), get()), 400, 405),
    answered("9112 6.3", "POST whose body is a GET", post(length_of(INNER["GET"]), body=INNER["GET"]), 405),
    answered("9112 6.3", "GET whose body is a GET", get(length_of(INNER["GET"]), body=INNER["GET"]), 200),
    answered("9112 6.3", "HEAD whose body is a GET", message("HEAD / HTTP/1.1", length_of(INNER["GET"]), body=INNER["GET"]), 200),
    answered("9112 6.3", "POST whose chunk is a GET", chunked(IN_ONE_CHUNK), 405),
    answered("9112 6.3", "GET whose chunk is a GET", get(CHUNKED, body=IN_ONE_CHUNK), 200),
    answered("9112 6.3", "unknown method whose body is a GET",
             message("UNKNOWN / HTTP/1.1", length_of(INNER["GET"]), body=INNER["GET"]), 501),
    answered("9112 6.3", "request without Host whose body is a GET", get(length_of(INNER["GET"]), body=INNER["GET"], host=None),
             400),
    in_turn("9110 9.3.1", "GET whose body begins a request, and its rest",
            (get(length_of(UNFINISHED), body=UNFINISHED), b"\r\n" + get()), (200,), (200, CLOSE)),
    in_turn("9110 9.3.1", "GET after GET with a body", (get(FIVE, body="hello"), get()), (200,), (200, CLOSE)),
    in_turn("9110 9.3.7", "GET after OPTIONS with a body", (message("OPTIONS / HTTP/1.1", FIVE, body="hello"), get()),
            (200, 204), (200, CLOSE)),
    in_turn("9112 6.3", "GET after POST with a body", (post(FIVE, body="hello"), get()), (405,), (200, CLOSE)),
    in_turn("9110 10.1.1", "GET after an expectation with a body", (post(FIVE, EXPECTS, body="hello"), get()), (405,),
            (200, CLOSE)),
    in_turn("9112 6.3", "GET after an empty body and a byte", (post("Content-Length: 0", body="X"), get()), (405,),
            (400, 501, CLOSE)),
    in_turn("9112 9.3.2", "GET after POST without a body", post("Content-Length: 0") + get(), (405,), (200, CLOSE)),
    in_turn("9112 9.3.2", "two requests", get() + get(), (200,), (200,)),
    in_turn("9112 9.3", "two requests, one after the other", (get(), get()), (200,), (200,)),
    in_turn("9112 9.6", "request after Connection: close", get("Connection: close") + get(), (200,), closes=True),
    in_turn("9112 9.6", "request after a list with close", get("Connection: foo, CLOSE") + get(), (200,), closes=True),
    in_turn("9112 9.6", "request after a second field with close", get("Connection: foo", "Connection: close") + get(), (200,),
            closes=True),
    in_turn("9112 9.3", "request after HTTP/1.0", message("GET / HTTP/1.0") + get(), (200,), closes=True),
    in_turn("9112 9.6", "request after an invalid one", get("no colon") + get(), (400,), closes=True),
]

LIMITS = [
    answered("9112 3", "target of 7900 bytes", get(target="/" + 7900 * "a"), 404),
    refused("9110 15.5.15", "target of 100 KiB", get(target="/" + 100 * KIB * "A"), 414),
    refused("9110 15.5.15", "target of 100 KiB without an end", ("GET /" + 100 * KIB * "A").encode(), 414),
    refused("9110 9.1", "method of 100 KiB", message(100 * KIB * "A" + " / HTTP/1.1"), 400, 414, 501),
    answered("6585 5", "field of 7 KiB", get(f"X-Test: {7 * KIB * 'a'}"), 200),
    refused("6585 5", "field of 64 KiB", get(f"X-Test: {64 * KIB * 'a'}"), 431),
    refused("6585 5", "field of 100 KiB", get(f"X-Test: {100 * KIB * 'a'}"), 431),
    refused("6585 5", "field of 100 KiB without an end", get()[:-2] + b"X-Test: " + 100 * KIB * b"a", 431),
    refused("6585 5", "field name of 100 KiB", get(f"{100 * KIB * 'a'}: a"), 431),
    answered("6585 5", "50 fields", get(*(f"X-{i}: a" for i in range(50))), 200),
    refused("6585 5", "200 fields", get(*(f"X-{i}: a" for i in range(200))), 431),
    refused("6585 5", "10,000 fields", get(*(f"X-{i}: value" for i in range(10_000))), 431),
    refused("6585 5", "100,000 fields", get(*(100_000 * ["a:b"])), 431),
    refused("6585 5", "1000 lengths", get(*(1000 * [FIVE])), 400, 431),
    answered("9110 14.2", "1000 ranges that overlap", get("Range: bytes=" + ",".join(1000 * ["0-"])), 200),
    answered("9110 14.2", "1000 ranges of a file that overlap", get("Range: bytes=" + ",".join(1000 * ["0-"]), target=FILE), 200,
             206),
    answered("9110 14.2", "1000 ranges of single bytes",
             get("Range: bytes=" + ",".join(f"{2 * i}-{2 * i}" for i in range(1000)), target="/files/model.safetensors"), 200, 206),
    answered("9112 3", "256 random bytes", random.Random(42).randbytes(256), 400, CLOSE),
    answered("9112 3", "64 KiB of NUL", bytes(64 * KIB), 400, 414, CLOSE),
    answered("9112 8", "no request", b"", 408, CLOSE),
]

# A request that ends too early is not answered with success; one that pauses is answered when it is complete.
LINE = f"GET {FILE} HTTP/1.1"
WHOLE = message(LINE).decode()
PAUSES = ["G", "GET ", LINE[:-9], LINE[:-8], LINE[:-4], LINE, LINE + "\r", LINE + "\r\n", LINE + "\r\nHos", LINE + "\r\nHost:",
          LINE + "\r\nHost: ", WHOLE[:-4], WHOLE[:-3], WHOLE[:-2], WHOLE[:-1]]

INCOMPLETE = [
    *[answered("9112 8", f"end after {begin!r}", begin.encode(), 400, 408, CLOSE) for begin in PAUSES],
    *[answered("9112 2.2", f"pause after {begin!r}", (begin.encode(), WHOLE[len(begin):].encode()), 200,
               fields=("Content-Length: 16",))
      for begin in PAUSES],
    answered("9112 8", "end in a field", get("X-Test: value")[:-4], 400, 408, CLOSE),
    in_turn("9112 8", "end in the second request", get() + get()[:-2], (200,), (400, 408, CLOSE)),
    in_turn("9112 9.3.2", "pause in the second request", (get() + get()[:10], get()[10:]), (200,), (200,)),
]

PATHS = [
    answered("9110 15.5.5", "missing file", get(target="/missing"), 404),
    answered("9110 15.5.5", "slash after a file", get(target=FILE + "/"), 404),
    answered("9110 15.4.2", "directory without a slash", get(target="/files"), 301, fields=(r"Location: (\./|/)?files/",)),
    answered("9110 15.4.2", "directory without a slash, and a query", get(target="/files?q=a"), 301,
             fields=(r"Location: (\./|/)?files/\?q=a",)),
    answered("3986 4.2", "directory after two slashes", get(target="//files"), 301, 404),
    answered("3986 2.1", "escaped letter", get(target="/%74ensors/bias"), 200, fields=("Content-Length: 16",)),
    answered("3986 2.2", "escaped slash", get(target="/tensors%2Fbias"), 404),
    answered("3986 2.1", "escape without digits", get(target="/%"), 400),
    answered("3986 2.1", "escape with one digit", get(target="/%4"), 400),
    answered("3986 2.1", "escape that is not hexadecimal", get(target="/%zz"), 400),
    answered("3986 7.3", "escaped NUL", get(target="/path%00.html"), 400),
    answered("9110 5.5", "escaped line end", get(target="/path%0d%0aX-Injected:%20true"), 400, 404),
    answered("9110 5.5", "escaped line end in a directory", get(target="/files/..%0d%0aX-Injected:%20true"), 400, 404),
    answered("3986 5.2.4", "dot segments", get(target=f"/./files/..{FILE}"), 200, fields=("Content-Length: 16",)),
    answered("3986 5.2.4", "dot segments above the root", get(target="/../../../etc/passwd"), 400, 404),
    answered("3986 5.2.4", "escaped dot segments", get(target=f"/files/%2e%2e{FILE}"), 400),
    answered("3986 5.2.4", "escaped dot segments above the root", get(target="/%2e%2e/%2e%2e/etc/passwd"), 400),
    answered("3986 5.2.4", "escaped dot segments and slashes", get(target="/..%2f..%2fetc/passwd"), 400, 404),
    answered("3986 3.4", "query", get(target=f"{FILE}?a=b&c"), 200, fields=("Content-Length: 16",)),
]

EPOCH = "Thu, 01 Jan 1970 00:00:00 GMT"


def file(*fields, method="GET"):
    return message(f"{method} {FILE} HTTP/1.1", *fields)


CONDITIONS = [
    answered("9110 8.8", "validators", file(), 200,
             fields=('ETag: "[^"]+"', "Last-Modified: .+", "Accept-Ranges: bytes", "Content-Length: 16")),
    answered("9110 13.1.2", "If-None-Match", file(f"If-None-Match: {ETAG}"), 304, fields=("ETag: .+", "Cache-Control: .+")),
    answered("9110 13.1.2", "If-None-Match with HEAD", file(f"If-None-Match: {ETAG}", method="HEAD"), 304, fields=("ETag: .+",)),
    answered("9110 13.1.2", "If-None-Match: weak tag", file(f"If-None-Match: W/{ETAG}"), 304),
    answered("9110 13.1.2", "If-None-Match: list", file(f'If-None-Match: "a,b", {ETAG}'), 304),
    answered("9110 5.2", "If-None-Match in two fields", file('If-None-Match: "a"', f"If-None-Match: {ETAG}"), 304),
    answered("9110 13.1.2", "If-None-Match: any", file("If-None-Match: *"), 304),
    answered("9110 13.1.2", "If-None-Match: another tag", file('If-None-Match: "a"'), 200),
    answered("9110 8.8.3", "If-None-Match without quotes", file(f"If-None-Match: {OPAQUE_TAG}"), 200),
    answered("9110 13.2.2", "If-None-Match and an old time", file(f"If-None-Match: {ETAG}", f"If-Modified-Since: {EPOCH}"), 304),
    answered("9110 13.2.2", "another tag and the time", file('If-None-Match: "a"', f"If-Modified-Since: {MODIFIED}"), 200),
    answered("9110 13.1.3", "If-Modified-Since", file(f"If-Modified-Since: {MODIFIED}"), 304, fields=("ETag: .+",)),
    answered("9110 13.1.3", "If-Modified-Since: old time", file(f"If-Modified-Since: {EPOCH}"), 200),
    answered("9110 13.1.3", "If-Modified-Since: future time", file("If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT"), 200),
    answered("9110 13.1.3", "If-Modified-Since: not a time", file("If-Modified-Since: not-a-date"), 200),
    answered("9110 13.1.1", "If-Match", file(f"If-Match: {ETAG}"), 200),
    answered("9110 13.1.1", "If-Match: any", file("If-Match: *"), 200),
    answered("9110 13.1.1", "If-Match: another tag", file('If-Match: "a"'), 412),
    answered("9110 13.1.1", "If-Match: weak tag", file(f"If-Match: W/{ETAG}"), 412),
    answered("9110 13.1.4", "If-Unmodified-Since", file(f"If-Unmodified-Since: {MODIFIED}"), 200),
    answered("9110 13.1.4", "If-Unmodified-Since: old time", file(f"If-Unmodified-Since: {EPOCH}"), 412),
    answered("9110 5.6.7", "old time of RFC 850", file("If-Unmodified-Since: Thursday, 01-Jan-70 00:00:00 GMT"), 412),
    answered("9110 5.6.7", "old time of asctime()", file("If-Unmodified-Since: Thu Jan  1 00:00:00 1970"), 412),
    answered("9110 13.2.2", "If-Match and an old time", file(f"If-Match: {ETAG}", f"If-Unmodified-Since: {EPOCH}"), 200),
]

ALL_BYTES = ("Content-Length: 16",)

RANGES = [
    answered("9110 14.1.2", "range", file("Range: bytes=0-3"), 206, fields=("Content-Range: bytes 0-3/16",)),
    answered("9110 14.1.2", "range without an end", file("Range: bytes=4-"), 206, fields=("Content-Range: bytes 4-15/16",)),
    answered("9110 14.1.2", "range of the last bytes", file("Range: bytes=-4"), 206, fields=("Content-Range: bytes 12-15/16",)),
    answered("9110 14.1.2", "range of more last bytes than there are", file("Range: bytes=-99"), 206,
             fields=("Content-Range: bytes 0-15/16",)),
    answered("9110 14.1.2", "range beyond the end", file("Range: bytes=8-99"), 206, fields=("Content-Range: bytes 8-15/16",)),
    answered("9110 14.1.2", "range of 20 digits", file("Range: bytes=8-99999999999999999999"), 206,
             fields=("Content-Range: bytes 8-15/16",)),
    answered("9110 14.1", "range unit in mixed case", file("Range: Bytes=0-3"), 206, fields=("Content-Range: bytes 0-3/16",)),
    answered("9110 15.5.17", "range after the end", file("Range: bytes=16-"), 416, fields=(r"Content-Range: bytes \*/16",)),
    answered("9110 15.5.17", "range after the end, of 20 digits", file("Range: bytes=99999999999999999999-"), 416,
             fields=(r"Content-Range: bytes \*/16",)),
    answered("9110 15.5.17", "range of the last 0 bytes", file("Range: bytes=-0"), 416, fields=(r"Content-Range: bytes \*/16",)),
    answered("9110 14.2", "range with the end before the begin", file("Range: bytes=3-1"), 200, fields=ALL_BYTES),
    answered("9110 14.2", "range that is not valid", file("Range: bytes=abc-xyz"), 200, fields=ALL_BYTES),
    answered("9110 14.2", "range of a directory that is not valid", get("Range: bytes=abc-xyz"), 200),
    answered("9110 14.2", "range of another unit", file("Range: lines=0-3"), 200, fields=ALL_BYTES),
    answered("9110 14.2", "range with HEAD", file("Range: bytes=0-3", method="HEAD"), 200, fields=ALL_BYTES),
    answered("9110 14.6", "two ranges", file("Range: bytes=0-1 , 4-5"), 206,
             fields=("Content-Type: multipart/byteranges; *boundary=.+",)),
    answered("9110 14.2", "ranges that overlap", file("Range: bytes=0-3,2-5"), 206, fields=("Content-Range: bytes 0-5/16",)),
    answered("9110 14.2", "two ranges, one after the end", file("Range: bytes=0-1,99-"), 206,
             fields=("Content-Range: bytes 0-1/16",)),
    answered("9110 14.1.2", "range of an empty file", get("Range: bytes=0-0", target="/tensors/empty"), 200, 416),
    answered("9110 13.1.5", "If-Range", file("Range: bytes=0-3", f"If-Range: {ETAG}"), 206,
             fields=("Content-Range: bytes 0-3/16",)),
    answered("9110 13.1.5", "If-Range: another tag", file("Range: bytes=0-3", 'If-Range: "a"'), 200, fields=ALL_BYTES),
    answered("9110 13.1.5", "If-Range: weak tag", file("Range: bytes=0-3", f"If-Range: W/{ETAG}"), 200, fields=ALL_BYTES),
    answered("9110 13.1.5", "If-Range: time", file("Range: bytes=0-3", f"If-Range: {MODIFIED}"), 200, 206),
    answered("9110 13.1.5", "If-Range: old time", file("Range: bytes=0-3", f"If-Range: {EPOCH}"), 200, fields=ALL_BYTES),
    answered("9110 13.2.2", "range and If-None-Match", file("Range: bytes=0-3", f"If-None-Match: {ETAG}"), 304),
]

COOKIES = [
    answered("6265 5.4", "cookie", get("Cookie: foo=bar"), 200),
    answered("6265 5.4", "three cookies", get("Cookie: a=1; b=2; c=3"), 200),
    answered("6265 5.4", "1000 cookies", get("Cookie: " + "; ".join(f"k{i}=v{i}" for i in range(1000))), 200, 431),
    answered("6265 5.4", "two Cookie fields", get("Cookie: a=1", "Cookie: b=2"), 200),
    answered("6265 5.4", "empty Cookie field", get("Cookie: "), 200),
    answered("6265 5.4", "empty cookie", get("Cookie: foo="), 200),
    answered("6265 5.4", "cookies with a space and a sign", get("Cookie: a=hello world; b=x=y"), 200),
    answered("6265 5.4", "cookie without a name", get("Cookie: ===;;;"), 200),
    refused("6585 5", "cookie of 64 KiB", get(f"Cookie: big={64 * KIB * 'A'}"), 431),
    refused("9110 5.5", "NUL in a cookie", get("Cookie: foo=\0bar")),
    refused("9110 5.5", "control characters in a cookie", get("Cookie: foo=\x01\x02\x03")),
]

ROWS = (*METHODS, *REQUEST_LINES, *FIELDS, *HOSTS, *FRAMING, *BODIES, *SMUGGLED, *LIMITS, *INCOMPLETE, *PATHS, *CONDITIONS, *RANGES,
        *COOKIES)
