"""A headless Chromium, driven over its debugging protocol: opens a page, clicks, looks, takes pictures.

It speaks through a pipe (`--remote-debugging-pipe`): JSON texts that end with a zero byte, on descriptors 3 and 4
of the browser. No port, no library. For tests and for the pictures of the documentation.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import quote

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Where the browser is; None if there is none."""

_PATIENCE = 60.0
"""Seconds after which an answer will not come any more."""


class Browser:
    """One browser with one page; a context manager."""

    def __init__(
        self, *, width: int = 1200, height: int = 900, scheme: Literal["light", "dark"] = "light"
    ) -> None:
        if CHROMIUM is None:
            raise RuntimeError("no Chromium here; apt-get install chromium")
        self.errors: list[str] = []
        """What the console had to complain of, and exceptions that nobody caught."""
        self._profile = tempfile.TemporaryDirectory(prefix="antecast-browser-", ignore_cleanup_errors=True)
        self._number = 0
        self._kept = b""
        self._session: str | None = None
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # Out of the way of the numbers where the browser looks for them.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        command = [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(
                "--hide-scrollbars",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._profile.name}",
                "about:blank",
            ),
        ]

        def place() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, pass_fds=(3, 4), preexec_fn=place, stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self._in, self._out = ours_in, ours_out
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.show(width=width, height=height, scheme=scheme)

    def show(
        self,
        *,
        width: int = 1200,
        height: int = 900,
        scheme: Literal["light", "dark"] = "light",
        paper: bool = False,
    ) -> None:
        """Give the page another size, scheme or medium; it stays open."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        media = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "", features=features)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)  # the browser ends when its pipe does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and wait for its result."""
        self._number += 1
        number = self._number
        what: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            what["sessionId"] = self._session
        os.write(self._out, json.dumps(what).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._kept:
            if not select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._kept += part
        text, _, self._kept = self._kept.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.errors.append(str([each.get("value") for each in parameters["args"]]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(parameters["entry"]["text"]))

    def open(self, path: Path, *, ready: str = "document.readyState == 'complete'") -> None:
        """Open a file and wait until an expression is true."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait(f"location.pathname == {json.dumps(quote(str(path.resolve())))} && ({ready})")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true; the page is asked again after each frame it draws."""
        deadline = time.monotonic() + _PATIENCE
        while not self.evaluate(f"new Promise(done => setTimeout(() => done(Boolean({expression})), 20))"):
            if time.monotonic() > deadline:
                raise RuntimeError(f"never came true: {expression}")

    def click(self, element: str) -> None:
        """Click in the middle of an element, named by an expression, with a real mouse."""
        self.evaluate(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        middle = "(box => [box.x + box.width / 2, box.y + box.height / 2])"
        box = self.evaluate(f"{middle}({element}.getBoundingClientRect())")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key, such as Tab, Enter or Escape."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40}
        what: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        what |= {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **what)
        self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    def named(self, role: str) -> list[str]:
        """The accessible names of all elements with a role, as a screen reader is told of them."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        seen = [node for node in nodes if not node.get("ignored") and node.get("role", {}).get("value") == role]
        return [str(node.get("name", {}).get("value", "")) for node in seen]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A picture of what is seen, or of the whole page, as PNG."""
        what: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            what["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.call("Page.captureScreenshot", **what)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def print(self, path: Path) -> None:
        """The page on paper, as PDF."""
        found = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(found["data"]))
