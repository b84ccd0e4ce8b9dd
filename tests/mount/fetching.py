"""What the tests of fetching share: a user with a home of his own, whom no proxy serves, and a look into his cache."""
import os
import signal
import unittest.mock

from test_archives import ArchiveTestCase, blobs_in, debris_in
import stores

# What would let the tests see the models, the logins and the network of whoever runs them.
OUTER = ("OLLAMA_MODELS", "CARTON_CACHE_DIR", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG", "http_proxy", "https_proxy",
         "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class FetchTestCase(ArchiveTestCase):
    def setUp(self):
        super().setUp()
        environment = unittest.mock.patch.dict(os.environ, HOME=self.path("home"))
        environment.start()
        self.addCleanup(environment.stop)
        for name in OUTER:
            os.environ.pop(name, None)
        os.mkdir(self.path("home"))

    def assert_cache_holds(self, *blobs):
        """These and no others, each under its own name; nothing that is being made, and nothing that was left."""
        kept = self.published(len(blobs))
        self.assertEqual(sorted(os.path.basename(path) for path in kept), sorted(map(stores.sha256, blobs)))
        for path in kept:
            self.assertEqual(stores.sha256(self.whole(path)), os.path.basename(path))
        self.assertEqual(debris_in(self.cache()), [])

    def assert_nothing_readable(self, folder, name):
        """It is not there, or it cannot be opened, or its first byte cannot be read."""
        with self.assertRaises(OSError):
            self.whole(folder, name)

    def end(self, process):
        """Ends a mount in the foreground; the lines that it logged."""
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        self.assertEqual(process.returncode, 0)
        return process.stderr.read().splitlines()


__all__ = ["FetchTestCase", "blobs_in", "debris_in"]
