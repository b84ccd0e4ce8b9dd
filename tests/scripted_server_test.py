"""The server of the tests does what its words say: a fault that does nothing would let tests of faults pass."""
import contextlib
import http.client
import os
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "support"))
from scripted_server import Refusal, Request, Server, correct, faulty, ranged, responds, tag_of  # noqa: E402

FILE = bytes(range(100))
LIMIT_S = 60


class ScriptedServer(unittest.TestCase):
    def setUp(self):
        self.web = Server(self)

    def connection(self):
        return contextlib.closing(http.client.HTTPConnection(self.web.host, timeout=LIMIT_S))

    def ask(self, connection, name, method="GET", **headers):
        """The status, the headers and the body, which may be cut."""
        connection.request(method, "/" + name, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.read()
        except http.client.IncompleteRead as cut:
            return answer.status, answer.headers, cut.partial

    def answers(self, *scripts, **headers):
        """The responses to one request per script, each in a connection of its own."""
        self.web.serve("f", *scripts)
        out = []
        for _ in scripts:
            with self.connection() as connection:
                out.append(self.ask(connection, "f", **headers))
        return out

    def body(self, script, **headers):
        return self.answers(script, **headers)[0][2]

    def test_correct_server_answers_ranges_and_conditions_in_one_connection(self):
        self.web.serve("f", correct(FILE))
        with self.connection() as connection:
            for headers, status, body in (({}, 200, FILE), ({"Range": "bytes=10-19"}, 206, FILE[10:20]),
                                          ({"Range": "bytes=90-"}, 206, FILE[90:]), ({"Range": "bytes=100-"}, 416, b""),
                                          ({"If_Match": '"x"'}, 412, b""), ({"If_None_Match": tag_of(FILE)}, 304, b""),
                                          ({"If_Range": '"x"', "Range": "bytes=1-2"}, 200, FILE)):
                with self.subTest(headers):
                    self.assertEqual(self.ask(connection, "f", **headers)[::2], (status, body))
            status, headers, body = self.ask(connection, "f", "HEAD")
            self.assertEqual((status, headers["Content-Length"], body), (200, "100", b""))
            self.assertEqual(self.ask(connection, "other")[0], 404)
        self.assertEqual((self.web.connections, self.web.count("HEAD", "f")), (1, 1))

    def test_wrong_byte_is_in_each_response_that_has_it(self):
        script = faulty(correct(FILE), flip=15)
        self.assertEqual(self.body(script, Range="bytes=10-19"), FILE[10:15] + b"\x0e" + FILE[16:20])
        self.assertEqual(self.body(script, Range="bytes=20-29"), FILE[20:30])

    def test_bytes_after_a_cut_are_not_sent(self):
        script = faulty(correct(FILE), cut=15)
        for span, body in (("0-9", FILE[:10]), ("10-19", FILE[10:15]), ("30-39", b"")):
            self.assertEqual(self.body(script, Range=f"bytes={span}"), body)
        for reset in (faulty(correct(FILE), cut=15, reset=True), Request.reset):
            with self.assertRaises(ConnectionResetError):
                self.body(reset)

    def test_bytes_after_a_gate_are_sent_after_its_event(self):
        gate, begun = threading.Event(), threading.Event()
        opener = threading.Thread(target=lambda: begun.wait(LIMIT_S) and gate.set())
        opener.start()
        self.assertEqual(self.body(faulty(correct(FILE), cut=50, gate=gate, begun=begun)), FILE)
        opener.join()

    def test_server_without_ranges_or_with_short_ones(self):
        self.assertEqual(self.body(correct(FILE, ignores=("range",)), Range="bytes=1-9"), FILE)
        self.assertEqual(self.body(correct(FILE, most=3), Range="bytes=1-9"), FILE[1:4])

    def test_list_of_scripts_has_a_fault_at_one_request(self):
        busy, wrong, last = self.answers(responds(503, Retry_After="1"),
                                         faulty(correct(FILE), headers={"Content-Length": 50, "ETag": '"z"'}), correct(FILE))
        self.assertEqual((busy[0], busy[1]["Retry-After"]), (503, "1"))
        self.assertEqual((wrong[1]["ETag"], wrong[2]), ('"z"', FILE[:50]))
        self.assertEqual(last[2], FILE)

    def test_body_of_a_request_is_not_the_next_request(self):
        self.web.serve("f", lambda request: (200, {}, request.content[::-1]))
        with self.connection() as connection:
            for content in (b"abc", b"x" * 10_000 + b"y"):
                connection.request("POST", "/f", body=content)
                self.assertEqual(connection.getresponse().read(), content[::-1])
        self.assertEqual(self.web.connections, 1)

    def test_script_finds_its_content_by_the_request(self):
        def script(request):
            if request.query.get("token") != "T":
                raise Refusal(401, {}, b"who?")
            return ranged(request, request.path.encode(), {"Connection": "close"})
        self.web.script = script
        with self.connection() as connection:
            self.assertEqual(self.ask(connection, "a")[::2], (401, b"who?"))
            self.assertEqual(self.ask(connection, "a?token=T", Range="bytes=1-")[::2], (206, b"a"))
        self.assertEqual([(each.status, each.length) for each in self.web.requests()], [(401, 4), (206, 1)])


if __name__ == "__main__":
    unittest.main()
