"""Pages in a headless Chromium, for tests. Where there is none they skip, and say so; `make browser` installs it.

    from browser import Browser, needs_browser

    @needs_browser
    def test_a_page(tmp_path):
        with Browser() as browser:
            page = browser.open(tmp_path / "page.html", width=390, dark=True)
            assert page.errors == [] and page.outside() == []   # console; requests that are no file:// or data:
            assert page.run("document.title") == "A page"        # any JavaScript expression, promises are waited for
            page.wait("document.querySelector('.plot path')")    # until it is true
            page.click("button.theme"); page.hover("#chart .point"); page.press("Tab")
            page.screenshot("page.png")                          # the whole page

It speaks the DevTools protocol over a pipe: no port, no driver and no package.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",  # as root it has none
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--password-store=basic",
    "--remote-debugging-pipe",
)
# Chromium reads commands from file 3 and answers on 4; between fork and exec only a program of its own can see to that
LAUNCH = """
import os, sys
reads, writes, *command = sys.argv[1:]
os.dup2(int(reads), 3)
os.dup2(int(writes), 4)
os.execv(command[0], command)
"""
PATIENCE = 30.0  # seconds; a busy machine takes its time


def find_browser() -> str | None:
    """Its path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


needs_browser = pytest.mark.skipif(
    find_browser() is None, reason="no Chromium to open pages in; `make browser` installs it, or your system's packages"
)


class Browser:
    """A browser with a fresh profile, which is gone with it."""

    def __enter__(self) -> "Browser":
        program = find_browser()
        if program is None:
            pytest.skip("no Chromium to open pages in")
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs, self.write = _high(os.pipe())
        self.read, answers = _high(os.pipe())
        command = [sys.executable, "-c", LAUNCH, str(theirs), str(answers), program, *FLAGS]
        quiet: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        profile = f"--user-data-dir={self.profile.name}"
        self.process = subprocess.Popen([*command, profile], pass_fds=(theirs, answers), **quiet)
        os.close(theirs)
        os.close(answers)
        self.buffer, self.count = b"", 0
        self.pages: dict[str, Page] = {}
        try:
            self.call("Browser.getVersion")
        except (OSError, EOFError, TimeoutError) as error:
            self.__exit__()
            pytest.skip(f"{program} does not start: {error}")
        return self

    def __exit__(self, *exception) -> None:
        try:
            self.call("Browser.close", timeout=5.0)
            self.process.wait(5.0)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.profile.cleanup()

    def open(self, where: str | Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> "Page":
        """Open a file, or an address, in a new tab and wait until it is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.call("Emulation.setEmulatedMedia", features=[_feature("color-scheme", "dark" if dark else "light")])
        address = where if isinstance(where, str) and "://" in where else Path(where).resolve().as_uri()
        page.call("Page.navigate", url=address)
        page.wait("document.readyState === 'complete' && location.href !== 'about:blank'")
        return page

    def call(self, method: str, session: str | None = None, timeout: float = PATIENCE, **params) -> dict[str, Any]:
        """Send a command and return its answer; events that come in between go to their pages."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self.write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            answer = self._receive(end - time.monotonic(), method)
            if answer.get("id") == self.count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if (page := self.pages.get(answer.get("sessionId", ""))) is not None:
                page.note(answer["method"], answer["params"])

    def _receive(self, seconds: float, what: str) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer to {what} in {seconds:.0f} s")
            chunk = os.read(self.read, 1 << 20)
            if not chunk:
                raise EOFError("it has gone")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)


class Page:
    """A tab. `errors` are the console's and what was thrown; `requests` all addresses that were asked for."""

    def __init__(self, browser: Browser, session: str):
        self.browser, self.session = browser, session
        self.errors: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **params) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def note(self, method: str, params: dict[str, Any]) -> None:
        """Keep what an event says."""
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])

    def outside(self) -> list[str]:
        """Requests that left the machine."""
        return [url for url in self.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        wanted = {"returnByValue": True, "awaitPromise": True, "userGesture": True}
        answer = self.call("Runtime.evaluate", expression=expression, **wanted)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"].get("exception", {}).get("description")
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = PATIENCE) -> None:
        """Until it is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < end, f"{expression} was not true within {seconds:g} s; console: {self.errors}"
            time.sleep(0.03)

    def resize(self, width: int, height: int = 900) -> None:
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return self.run("document.documentElement.scrollWidth - window.innerWidth")

    def hover(self, selector: str) -> None:
        """Bring the mouse over the middle of an element."""
        self._mouse("mouseMoved", *self._middle(selector))

    def click(self, selector: str) -> None:
        x, y = self._middle(selector)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._mouse(kind, x, y)

    def drag(self, selector: str, dx: float, dy: float) -> None:
        """Press in the middle of an element, move by so much and let go."""
        x, y = self._middle(selector)
        self._mouse("mouseMoved", x, y)
        self._mouse("mousePressed", x, y)
        for share in (0.3, 0.6, 1.0):
            self._mouse("mouseMoved", x + share * dx, y + share * dy)
        self._mouse("mouseReleased", x + dx, y + dy)

    def press(self, key: str, text: str = "") -> None:
        """A key by its name, as Tab, Enter, ArrowRight; `text` for one that writes."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        text = {"Enter": "\r", " ": " "}.get(key, text)
        named: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()))}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def screenshot(self, path: str | Path, whole: bool = True) -> None:
        """The whole page, or what the window shows, as a PNG file."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        Path(path).write_bytes(base64.b64decode(taken["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _middle(self, selector: str) -> tuple[float, float]:
        """Of an element, brought into view, when what was under way is drawn: before, it may move away."""
        found = self.run(f"""(async () => {{
            const frame = () => new Promise((done) => {{ requestAnimationFrame(done); setTimeout(done, 100); }});
            await frame();
            await frame();
            const element = document.querySelector({json.dumps(selector)});
            if (!element) return null;
            element.scrollIntoView({{block: "center", behavior: "instant"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        assert found, f"there is no {selector}"
        return found[0], found[1]

    def _mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)


def _feature(name: str, value: str) -> dict[str, str]:
    return {"name": f"prefers-{name}", "value": value}


def _high(pair: tuple[int, int]) -> tuple[int, int]:
    """The same pipe with numbers above those that Chromium wants."""
    moved = tuple(fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in pair)
    for one in pair:
        os.close(one)
    return moved[0], moved[1]
