"""Headless Chromium that a test drives by the DevTools protocol, over a pipe: pages, real mouse and key events, screenshots, and
everything that goes wrong in a page."""
import base64
import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from urllib.parse import urlsplit

from browsing import command
from mounting import LIMIT_S, eventually

# Chromium reads commands from descriptor 3 and writes responses and events to 4; each message ends with NUL.
READS, WRITES = 3, 4
HIGH = 64  # descriptors from here on are neither

# The events that a page sends when it breaks its policy; the console reports the rest.
WATCHES_POLICY = """addEventListener("securitypolicyviolation", (event) => console.error(
  `policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));"""

# The keys that write another text than their names, or none: (code, number, text).
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""), " ": ("Space", 32, " "),
        "ArrowLeft": ("ArrowLeft", 37, ""), "ArrowUp": ("ArrowUp", 38, ""), "ArrowRight": ("ArrowRight", 39, ""),
        "ArrowDown": ("ArrowDown", 40, ""), "Home": ("Home", 36, ""), "End": ("End", 35, ""), "PageUp": ("PageUp", 33, ""),
        "PageDown": ("PageDown", 34, ""), "Backspace": ("Backspace", 8, ""), "Delete": ("Delete", 46, "")}
MODIFIERS = {"alt": 1, "ctrl": 2, "meta": 4, "shift": 8}

# The middle of the first visible element of a selector, or else of the innermost one with this text or label. It is scrolled into
# the window.
FINDS = r"""(wanted) => {
  const isShown = (element) => element.getClientRects().length > 0 && element.checkVisibility({visibilityProperty: true});
  const selected = () => { try { return [...document.querySelectorAll(wanted)]; } catch { return []; } };
  const textOf = (element) => element.textContent.replace(/\s+/g, " ").trim();
  const withText = () => [...document.querySelectorAll("body *")].filter((element) => textOf(element) === wanted).reverse();
  const withLabel = () => [...document.querySelectorAll("[aria-label]")].filter((element) => element.ariaLabel === wanted);
  const element = [selected, withText, withLabel].flatMap((find) => find()).find(isShown);
  if (!element) return null;
  element.scrollIntoView({block: "nearest", inline: "nearest", behavior: "instant"});
  const {left, top, width, height} = element.getBoundingClientRect();
  return {x: left + width / 2, y: top + height / 2};
}"""


class Browser:
    """The connection to a browser. `listeners` are called with each event, in the thread that reads; they must not send()."""

    def __init__(self, requests, responses):
        self.requests, self.responses = requests, responses
        self.listeners = []
        self.waiting = {}  # id of a command to the queue of its response
        self.last = 0
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        rest = b""
        while piece := os.read(self.responses, 1 << 20):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self.waiting.pop(message["id"]).put(message)
                else:
                    for listener in list(self.listeners):
                        listener(message)
        for answer in list(self.waiting.values()):
            answer.put({"error": {"message": "the browser has ended"}})

    def post(self, method, session=None, **parameters):
        """Sends a command; returns the queue that gets its response."""
        answer = queue.Queue()
        with self.lock:
            self.last += 1
            self.waiting[self.last] = answer
            message = {"id": self.last, "method": method, "params": parameters}
            data = json.dumps({**message, "sessionId": session} if session else message).encode() + b"\0"
            while data:
                data = data[os.write(self.requests, data):]
        return answer

    def send(self, method, session=None, **parameters):
        """The result of a command."""
        try:
            response = self.post(method, session, **parameters).get(timeout=LIMIT_S)
        except queue.Empty:
            raise AssertionError(f"{method}: no response") from None
        if "error" in response:
            raise AssertionError(f"{method}: {response['error']['message']}")
        return response["result"]


@contextlib.contextmanager
def browser(test):
    """A browser with its own profile, which ends with all its processes after the block."""
    folder = tempfile.mkdtemp(prefix="chromium-", dir=test.tmp)
    of_commands, of_responses = os.pipe(), os.pipe()

    def take_descriptors():
        pair = [os.dup2(each, HIGH + number) for number, each in enumerate((of_commands[0], of_responses[1]))]
        os.dup2(pair[0], READS)
        os.dup2(pair[1], WRITES)
        os.closerange(HIGH, HIGH + 2)

    # Descriptors of this process are closed by exec, except those that take_descriptors() makes.
    process = subprocess.Popen(command(folder, "--remote-debugging-pipe", "--hide-scrollbars", "about:blank"),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
                               env={"PATH": os.environ["PATH"], "HOME": folder}, start_new_session=True, close_fds=False,
                               preexec_fn=take_descriptors)
    os.close(of_commands[0])
    os.close(of_responses[1])
    made = Browser(of_commands[1], of_responses[0])
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        made.reader.join(LIMIT_S)
        os.close(of_commands[1])
        os.close(of_responses[0])


# Keeps the next file that the page saves, instead of a download.
CATCHES_FILE = """(() => {
  const make = URL.createObjectURL;
  window.savedFile = {};
  URL.createObjectURL = (blob) => { window.savedFile.blob = blob; return make.call(URL, blob); };
  HTMLAnchorElement.prototype.click = function () { window.savedFile.name = this.download; };
})()"""


class Problems:
    """What goes wrong in a page and in its workers: a listener that lists it as texts."""

    def __init__(self, browser, session):
        self.browser, self.sessions = browser, {session}
        self.origin = None  # the only one that may get requests
        self.found = []
        self.pending = {}  # requests that have not ended, by their ids: (URL, id of the document that has sent them)
        self.received = {}  # bytes of responses as they were sent, by their URLs

    def __call__(self, message):
        if message.get("sessionId") not in self.sessions:
            return
        method, event = message["method"], message["params"]
        handle = getattr(self, "on_" + method.replace(".", "_"), None)
        if handle:
            handle(event, message["sessionId"])

    def on_Target_attachedToTarget(self, event, _):
        session = event["sessionId"]
        self.sessions.add(session)
        for method in ("Runtime.enable", "Log.enable", "Network.enable", "Runtime.runIfWaitingForDebugger"):
            self.browser.post(method, session)

    def on_Runtime_consoleAPICalled(self, event, _):
        if event["type"] in ("error", "warning", "assert"):
            texts = [str(each.get("value", each.get("description", each["type"]))) for each in event["args"]]
            self.found.append(f"console {event['type']}: {' '.join(texts)}")

    def on_Runtime_exceptionThrown(self, event, _):
        details = event["exceptionDetails"]
        self.found.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")

    def on_Log_entryAdded(self, event, _):
        entry = event["entry"]
        if entry["level"] in ("error", "warning"):
            self.found.append(f"log {entry['level']}: {entry['source']}: {entry['text']} {entry.get('url', '')}")

    def on_Network_requestWillBeSent(self, event, _):
        url = event["request"]["url"]
        self.pending[event["requestId"]] = (url, event["loaderId"])
        scheme, host, *_ = urlsplit(url)
        if scheme not in ("data", "blob", "about") and f"{scheme}://{host}" != self.origin:
            self.found.append(f"request to another origin: {url}")

    def on_Network_loadingFinished(self, event, _):
        url, _ = self.pending.pop(event["requestId"], (None, None))
        self.received[url] = self.received.get(url, 0) + event["encodedDataLength"]

    def on_Network_loadingFailed(self, event, _):
        url, _ = self.pending.pop(event["requestId"], (None, None))
        if not event.get("canceled"):  # the page itself may abort what it no longer needs
            self.found.append(f"request failed: {url}: {event['errorText']}")

    def on_Page_frameNavigated(self, event, _):
        # The end of the requests of the last document is not always reported.
        if "parentId" not in event["frame"]:
            loader = event["frame"]["loaderId"]
            self.pending = {each: request for each, request in self.pending.items() if request[1] == loader}

    def on_Page_javascriptDialogOpening(self, event, session):
        self.found.append(f"dialog: {event['message']}")
        self.browser.post("Page.handleJavaScriptDialog", session, accept=False)

    def on_Inspector_targetCrashed(self, *_):
        self.found.append("the page has crashed")


class Page:
    """A page of a browser, 1,440 × 900 pixels at first. A failure says what the page shows, and its problems."""

    def __init__(self, browser, dark=False):
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        self.watch = Problems(browser, self.session)
        browser.listeners.append(self.watch)
        for domain in ("Page", "Runtime", "Log", "Network", "Performance", "Inspector"):
            self.send(f"{domain}.enable")
        self.send("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        self.send("Page.addScriptToEvaluateOnNewDocument", source=WATCHES_POLICY)
        self.resize(1440, 900, dark)

    def send(self, method, **parameters):
        return self.browser.send(method, self.session, **parameters)

    def close(self):
        self.browser.listeners.remove(self.watch)
        self.browser.send("Target.closeTarget", targetId=self.target)

    @property
    def problems(self):
        """All texts of Problems since the start."""
        self.evaluate("0")  # events before its response have been read
        return list(self.watch.found)

    def open(self, url):
        """Opens a URL and waits until its document and its scripts have been loaded."""
        self.watch.origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        result = self.send("Page.navigate", url=url)
        if "errorText" in result:
            raise AssertionError(f"{url}: {result['errorText']}")
        self.wait_for("document.readyState === 'complete'")

    def evaluate(self, expression):
        """The value of an expression, or of the promise that it returns."""
        result = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise AssertionError(f"{expression[:200]}: {details.get('exception', {}).get('description', details['text'])}")
        return result["result"].get("value")

    def call(self, function, *arguments):
        """The result of a function in JavaScript."""
        return self.evaluate(f"({function})({', '.join(map(json.dumps, arguments))})")

    def wait_for(self, expression, timeout=LIMIT_S):
        """Waits until an expression, or the promise that it returns, is true."""
        is_true = f"Promise.resolve({expression}).then(Boolean)"
        if not eventually(lambda: self.evaluate(is_true), timeout):
            raise AssertionError(f"not true after {timeout} s: {expression}\n{self.state()}")

    def wait_for_text(self, text, timeout=LIMIT_S):
        """Waits until the page shows a text."""
        self.wait_for(f"document.body.innerText.includes({json.dumps(text)})", timeout)

    def settle(self):
        """Waits until no request is running, and what they changed has been drawn."""
        frames = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(done))))"

        def is_quiet():
            self.evaluate(frames)
            return not self.watch.pending

        if not (eventually(is_quiet, LIMIT_S) and eventually(is_quiet, LIMIT_S)):
            raise AssertionError(f"requests are running: {sorted(url for url, _ in self.watch.pending.values())}")

    def state(self):
        text = self.evaluate("document.body.innerText")
        return f"at {self.evaluate('location.href')}, the page shows:\n{text[:3000]}\nproblems: {self.watch.found}"

    def place_of(self, wanted):
        """The middle of an element, by its selector, text or label."""
        places = []

        def is_found():
            places.append(self.call(FINDS, wanted))
            return places[-1] is not None

        if not eventually(is_found, LIMIT_S):
            raise AssertionError(f"no element {wanted!r}; {self.state()}")
        return places[-1]

    def click(self, wanted):
        """Clicks with the mouse into the middle of an element: a selector, its whole text, or its label."""
        place = self.place_of(wanted)
        self.mouse("mouseMoved", place)
        self.mouse("mousePressed", place, button="left", clickCount=1)
        self.mouse("mouseReleased", place, button="left", clickCount=1)

    def drag(self, wanted, right, down):
        """Presses the mouse in the middle of an element, moves it in steps, and releases it."""
        place = self.place_of(wanted)
        self.mouse("mouseMoved", place)
        self.mouse("mousePressed", place, button="left", clickCount=1)
        for step in range(1, 6):
            at = {"x": place["x"] + right * step / 5, "y": place["y"] + down * step / 5}
            self.mouse("mouseMoved", at, button="left")
        self.mouse("mouseReleased", at, button="left", clickCount=1)

    def wheel(self, wanted, down):
        self.mouse("mouseWheel", self.place_of(wanted), deltaX=0, deltaY=down)

    def mouse(self, type, place, **parameters):
        self.send("Input.dispatchMouseEvent", type=type, **place, **parameters)

    def press(self, key, *modifiers):
        """Presses a key: its name as in KeyboardEvent.key. Modifiers: alt, ctrl, meta, shift."""
        # Letters and digits have their own numbers. Other characters have those of keyboards, which pages do not read.
        code, number, text = KEYS.get(key) or ("", ord(key.upper()) if key.isalnum() and key.isascii() else 0, key)
        event = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": sum(map(MODIFIERS.get, modifiers))}
        self.send("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        """Types a text into the element with the focus."""
        for character in text:
            self.press(character)

    def resize(self, width, height, dark=False):
        """Sets the size of the page in pixels, and the color scheme that the system prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def saved(self, button):
        """Clicks a button that saves a file; its name and its text."""
        self.evaluate(CATCHES_FILE)
        self.click(button)
        self.wait_for("window.savedFile?.name")
        return self.evaluate("savedFile.blob.text().then((text) => [savedFile.name, text])")

    def screenshot(self, path, width=None, height=None, dark=False):
        """Writes a picture of the page as PNG, after it has been resized if a size is given."""
        if width:
            self.resize(width, height, dark)
            self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def heap(self):
        """The bytes of JavaScript objects in the page that are in use, without those of its workers."""
        self.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in self.send("Performance.getMetrics")["metrics"]}
        return int(metrics["JSHeapUsedSize"])


@contextlib.contextmanager
def page(test, dark=False):
    """A page in a browser of its own, which ends with all its processes after the block."""
    with browser(test) as made:
        yield Page(made, dark)
