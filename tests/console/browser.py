"""A headless Chromium, driven by the DevTools protocol over a websocket.

It is Debian's: no browser is downloaded. Waiting is for conditions of the page; what the page logs as an error, breaks
of the Content-Security-Policy among them, is kept in `Page.problems`.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import websocket

# The shell without windows draws no surface of a browser around its pages: of all tests here three fifths of the processor time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
PATIENCE_SECONDS = 60.0
_KEYS = {"Enter": "\r", "Tab": "", "Escape": "", "ArrowDown": "", "ArrowUp": "", " ": " "}


# What people read on the page, editors (each in a shadow root) among it.
_TEXT = (
    "[document.body?.innerText ?? '', ...[...document.querySelectorAll('.editor, .difference-box > div')]"
    ".map(e => e.shadowRoot?.querySelector('.parent')?.innerText ?? '')].join('\\n')"
)


def _connect(address: str) -> websocket.WebSocket:
    # What a browser sends is UTF-8: checking that takes two thirds of the time of reading it.
    return websocket.create_connection(
        address, timeout=PATIENCE_SECONDS, suppress_origin=True, skip_utf8_validation=True
    )


class Page:
    """One tab. JavaScript expressions are evaluated in the page; a promise is awaited."""

    def __init__(self, address: str) -> None:
        self._socket = _connect(address)
        self._ids = itertools.count(1)
        self.problems: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = message["params"]["exceptionDetails"]
                self.problems.append(details.get("exception", {}).get("description", details["text"]))
            case "Log.entryAdded":
                entry = message["params"]["entry"]
                # What the server refuses is in the log of the network, too, and is the page's to show.
                if entry["level"] == "error" and entry["source"] != "network":
                    self.problems.append(f"{entry['source']}: {entry['text']}")
            case "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, expression: str, *, seconds: float = PATIENCE_SECONDS) -> Any:
        """The value of the expression once it is true."""
        started = time.monotonic()
        deadline = started + seconds
        while True:
            try:
                found = self.evaluate(expression)
            except AssertionError:  # between two documents
                if time.monotonic() > deadline:
                    raise
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, (
                f"not within {seconds} s: {expression}\n{self.text[:3000]}\n{self.problems}"
            )
            # The longer it has taken, the rarer: each look at a page lays it out, on the processor that it needs itself.
            time.sleep(min(0.03 + (time.monotonic() - started) / 8, 0.5))

    @property
    def text(self) -> str:
        return str(self.evaluate(_TEXT))

    def wait_text(self, text: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        self.wait(f"({_TEXT}).includes({json.dumps(text)})", seconds=seconds)

    def wait_no_text(self, text: str) -> None:
        self.wait(f"!({_TEXT}).includes({json.dumps(text)})")

    def click(self, text: str, role: str = "a, button, [role=tab], summary, option") -> None:
        """Clicks the first visible link or button with this text or label, once there is one.

        It is found and clicked in one step, because a live page may replace it in between.
        """
        found = (
            f"[...document.querySelectorAll({json.dumps(role)})].filter(e => e.checkVisibility() && !e.disabled && "
            f"(!document.querySelector('dialog:modal') || e.closest('dialog:modal')))"
            f".find(e => e.innerText.trim() === {json.dumps(text)} || e.getAttribute('aria-label') === {json.dumps(text)})"
        )
        self.wait(f"(e => e && (e.click(), true))({found})")

    def fill(self, selector: str, value: str) -> None:
        """Replaces what an input holds by typing."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"(e => e && (e.focus(), e.select?.(), document.activeElement === e))({field})")
        self.type(value)
        self.wait(f"{field}?.value === {json.dumps(value)}")

    def reload(self) -> None:
        """Reloads the page; on return the former document is gone."""
        self.evaluate("window.isFormer = true")
        self.call("Page.reload")
        self.wait("!window.isFormer && document.readyState === 'complete'")

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, ctrl: bool = False) -> None:
        code = {"key": key, "code": key if len(key) > 1 else f"Key{key.upper()}", "modifiers": 2 if ctrl else 0}
        virtual = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "PageDown": 34, "End": 35}
        number = virtual.get(key, ord(key.upper()) if len(key) == 1 else 0)
        text = {} if ctrl or (len(key) > 1 and key != "Enter") else {"text": _KEYS.get(key, key)}
        self.call("Input.dispatchKeyEvent", type="keyDown", windowsVirtualKeyCode=number, **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", windowsVirtualKeyCode=number, **code)

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)["data"]
        path.write_bytes(base64.b64decode(data))


class Browser:
    """Pages are of contexts of their own: none shares a session with another."""

    def __init__(self, port: int) -> None:
        self._port = port
        with urlopen(f"http://127.0.0.1:{port}/json/version", timeout=30) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        self._control = Page.__new__(Page)
        self._control._socket = _connect(address)
        self._control._ids = itertools.count(1)
        self._control.problems, self._control.requests = [], []

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        context = self._control.call("Target.createBrowserContext")["browserContextId"]
        target = self._control.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        page = Page(f"ws://127.0.0.1:{self._port}/devtools/page/{target}")
        page.size(1280, 800)
        try:
            yield page
        finally:
            page.close()
            self._control.call("Target.disposeBrowserContext", browserContextId=context)

    def close(self) -> None:
        """Ends the browser."""
        self._control.call("Browser.close")
        self._control.close()


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """A Chromium until the block ends. It trusts any certificate: the server's is of a CA of its own."""
    assert CHROMIUM is not None
    profile = Path(tempfile.mkdtemp(prefix="registry-chromium-"))
    command = [
        CHROMIUM, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={profile}", "--ignore-certificate-errors",
        "--no-first-run", "--disable-gpu", "--disable-extensions", "--disable-background-networking", "--disable-sync",
        "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
        # No process is started ahead for a page that may not come, and none for a frame: a tenth of the processor time.
        "--disable-features=SpareRendererForSitePerProcess", "--disable-site-isolation-trials",
        "about:blank",
    ]  # fmt: skip
    if os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # Chromium's sandbox refuses root, and loads nothing but our own pages here
    # A group of its own: Debian's command may be a shell, whose end would not be that of the browser.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=_be_nice,
        start_new_session=True,
    )  # fmt: skip
    try:
        browser = Browser(_port(profile, process))
        try:
            yield browser
        finally:
            browser.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def _be_nice() -> None:
    os.nice(5)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + PATIENCE_SECONDS
    file = profile / "DevToolsActivePort"
    while process.poll() is None and time.monotonic() < deadline:
        if file.exists() and (found := re.match(r"(\d+)\n", file.read_text())):
            return int(found[1])
        time.sleep(0.02)
    raise RuntimeError("Chromium did not start")


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
