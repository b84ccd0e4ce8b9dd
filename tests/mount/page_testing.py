"""Shared by the tests of the page: a server with a model, and a browser, for each class; a page for each test. With
WEIGHTFS_PAGE=DIR, the files of the page are those of a directory, instead of those in the program."""
import os
from urllib.parse import urlencode

from devtools import Page, browser
from http_serving import HttpServer
from mounting import TestCase

ASSETS = ("--assets", os.environ["WEIGHTFS_PAGE"]) if "WEIGHTFS_PAGE" in os.environ else ()


class PageTestCase(TestCase):
    """`source_of(owner)` writes what the server of a class serves, into the folder of `owner`. A problem in a page fails its test."""

    @classmethod
    def setUpClass(cls):
        cls.owner = TestCase()
        cls.owner.setUp()
        cls.addClassCleanup(cls.end)
        cls.server = HttpServer(cls.source_of(cls.owner), folder=cls.owner.tmp, options=ASSETS)
        cls.addClassCleanup(cls.server.close)
        cls.browser = cls.enterClassContext(browser(cls.owner))

    @classmethod
    def source_of(cls, owner):
        return owner.sample()

    @classmethod
    def end(cls):
        if not cls.owner.doCleanups():
            raise AssertionError(f"{cls.owner.tmp} cannot be removed")

    def setUp(self):
        super().setUp()
        self.page = Page(self.browser)
        self.addCleanup(self.check)

    def check(self):
        """Closes the page; it must have had no problems."""
        problems = self.page.problems
        self.page.close()
        self.assertEqual(problems, [])

    def show(self, view="model", **parameters):
        """Opens a view, and waits until it is complete."""
        self.page.open(f"{self.server.url}?{urlencode({'view': view, **parameters})}")
        self.settle()

    def settle(self):
        """Waits until the view is complete, and checks that nothing in it has failed."""
        self.page.wait_for("document.querySelector('main h1') && !document.querySelector('main .loading')")
        self.page.settle()
        self.assertFalse(self.page.evaluate("document.body.innerText.includes('Try again')"), self.page.state())

    def text(self, selector="main"):
        return self.page.evaluate(f"document.querySelector({selector!r}).innerText")
