"""`weightfs open`: the command line of the browser has no token, but a code for one use by its user. semantics 29.11"""
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import unittest
from urllib.parse import urlsplit

from mounting import LIMIT_S, NOBODY, WEIGHTFS, TestCase, until

# Stands for the browser: keeps its arguments.
BROWSER = """#!/bin/sh
printf '%s\\n' "$@" > "$OPENED.new" && mv "$OPENED.new" "$OPENED"
"""

GET = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request("GET", sys.argv[2])
answer = connection.getresponse()
print(answer.status, answer.getheader("Location"), answer.read().decode().strip())
"""

CODE = "code=" + "0" * 32
REFUSED = {  # what a request has instead of the right code: a target with {code}, a method, fields
    "no code": "/.weightfs/open", "an empty code": "/.weightfs/open?code=", "another code": f"/.weightfs/open?{CODE}",
    "a part of it": "/.weightfs/open?code={code:.31}", "more than it": "/.weightfs/open?code={code}0",
    "a space before it": "/.weightfs/open?code=%20{code}", "a zero byte behind it": "/.weightfs/open?code={code}%00",
    "the other one first": f"/.weightfs/open?{CODE}&code={{code}}", "another name": "/.weightfs/open?token={code}",
    "a fragment": "/.weightfs/open#code={code}", "another case": "/.weightfs/OPEN?code={code}",
    "another file": "/?code={code}", "the API": "/.weightfs/api/v1/models?code={code}", "a model": "/tensors/?code={code}",
    "another host": ("/.weightfs/open?code={code}", "GET", {"Host": "example.com"}),
    "another origin": ("/.weightfs/open?code={code}", "GET", {"Origin": "http://example.com"}),
    "a proxy": ("/.weightfs/open?code={code}", "GET", {"X-Forwarded-For": "192.0.2.1"}),
    "POST": ("/.weightfs/open?code={code}", "POST", {}), "PUT": ("/.weightfs/open?code={code}", "PUT", {}),
    "a frame": ("/.weightfs/open?code={code}", "GET", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"})
}


class Opening(TestCase):
    def setUp(self):
        super().setUp()
        browser = self.path("bin", "xdg-open")
        os.makedirs(os.path.dirname(browser))
        with open(browser, "w") as file:
            file.write(BROWSER)
        os.chmod(browser, 0o755)

    def open(self, *options):
        """The URL that it prints, and that of the browser."""
        environment = dict(os.environ, PATH=f"{self.path('bin')}:{os.environ['PATH']}", DISPLAY=":1", OPENED=self.path("opened"))
        process = subprocess.Popen([WEIGHTFS, "open", *options, self.sample()], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.communicate, timeout=LIMIT_S)
        self.addCleanup(process.terminate)
        printed = process.stdout.readline().strip()
        until(lambda: os.path.exists(self.path("opened")), "no browser was started")
        with open(self.path("opened")) as file:
            return printed, file.read().strip()

    @staticmethod
    def get(url, **fields):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path, headers=fields)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Location"), answer.read().decode()

    def test_code_is_exchanged_for_the_token_once(self):
        for options in ((), ("--sandbox=off", )):
            with self.subTest(options=options):
                printed, opened = self.open(*options)
                base, _, token = printed.partition("/#token=")
                self.assertRegex(token, "^[0-9a-f]{32}$")
                self.assertRegex(opened, f"^{base}/\\.weightfs/open\\?code=[0-9a-f]{{32}}$")
                self.assertNotIn(token, opened)
                self.assertEqual(self.get(f"{base}/tensors/")[0], 401)
                self.assertEqual(self.get(opened[:-1])[0], 403, "a wrong code")
                self.assertEqual(self.get(opened)[:2], (303, f"/#token={token}"))
                self.assertEqual(self.get(f"{base}/tensors/", Authorization=f"Bearer {token}")[0], 200)
                status, location, text = self.get(opened)
                self.assertEqual((status, location), (410, None))
                self.assertIn("the code has been used", text)
                os.unlink(self.path("opened"))

    def test_other_requests_neither_get_the_token_nor_use_the_code(self):
        printed, opened = self.open()
        token, code, parts = printed.partition("#token=")[2], opened.partition("code=")[2], urlsplit(opened)
        for name, request in REFUSED.items():
            target, method, fields = (request, "GET", {}) if isinstance(request, str) else request
            with self.subTest(name):
                connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=LIMIT_S)
                with contextlib.closing(connection):
                    connection.request(method, target.format(code=code), headers=fields)
                    answer = connection.getresponse()
                    self.assertIn(answer.status, (200, 400, 401, 403, 404, 405, 421) if name == "another file" else
                                  (400, 401, 403, 404, 405, 421))
                    self.assertNotIn(token, str(answer.headers) + answer.read().decode())
        self.assertEqual(self.get(opened)[:2], (303, f"/#token={token}"))

    def test_no_process_has_the_token_in_its_arguments(self):
        printed, _ = self.open()
        token = printed.partition("#token=")[2]
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    self.assertNotIn(token.encode(), file.read(), pid)
            except OSError:
                pass

    @unittest.skipIf(os.geteuid() != 0, "only root can run a program as another user")
    def test_code_is_refused_to_another_user_and_stays_valid(self):
        printed, opened = self.open()
        parts = urlsplit(opened)
        done = subprocess.run([sys.executable, "-c", GET, str(parts.port), f"{parts.path}?{parts.query}"], capture_output=True,
                              text=True, timeout=LIMIT_S, user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[], cwd="/")
        self.assertEqual((done.stdout, done.stderr), ("403 None the code is for another user\n", ""))
        self.assertEqual(self.get(opened)[:2], (303, f"/#token={printed.partition('#token=')[2]}"))

    def test_pages_of_other_origins_cannot_use_the_code(self):
        _, opened = self.open()
        for site in ("cross-site", "same-site"):
            fields = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}
            self.assertEqual(self.get(opened, **fields)[0], 403)
        self.assertEqual(self.get(opened, **{"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"})[0], 303)

    # Over ssh: two lines, the URL and how to reach it.
    def test_without_a_browser_the_way_from_another_machine_is_printed(self):
        os.unlink(self.path("bin", "xdg-open"))
        for options, has_line in (((), True), (("--no-browser", ), False)):
            displays = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
            environment = {name: value for name, value in os.environ.items() if name not in displays}
            process = subprocess.Popen([WEIGHTFS, "open", *options, self.sample()], stdin=subprocess.DEVNULL, env=environment,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            with contextlib.closing(process.stdout), contextlib.closing(process.stderr):
                self.addCleanup(process.kill)
                url = process.stdout.readline().strip()
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(LIMIT_S), 0)
                errors = process.stderr.read()
            port = urlsplit(url).port
            line = "weightfs: no browser was found here; on a machine with one, run " \
                   f"ssh -L {port}:127.0.0.1:{port} HOST and open the URL; Ctrl-C ends weightfs\n"
            self.assertEqual(line in errors, has_line, errors)


if __name__ == "__main__":
    unittest.main()
