"""A headless Chromium for tests, driven by the DevTools protocol over a pipe, with nothing but the standard library.

with Browser(folder) as browser:
    browser.open(page)
    browser.evaluate("document.title")
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

#: Marks the tests of a module that need the browser.
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path (apt-get install chromium)")

#: Seconds that one action of the browser may take.
PATIENCE = 300


class Browser:
    """A headless Chromium with one page, driven through a pair of pipes."""

    def __init__(self, home: Path) -> None:
        assert CHROMIUM is not None
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        self._to, self._from = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        flags = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--force-device-scale-factor=1", "--remote-debugging-pipe", f"--user-data-dir={home}",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, "bash", CHROMIUM, *flags],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home)}, start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._session = 0, None
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Call a method and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": parameters}
        self._to.write(json.dumps(call | ({"sessionId": self._session} if self._session else {})).encode() + b"\0")
        self._to.flush()
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message)
                return message["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from.fileno(), 1 << 20)
            if not more:
                raise AssertionError("the browser has gone")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True) -> None:
        """Load a page, and wait until it is there."""
        self.events.clear()
        features = {"prefers-color-scheme": "dark" if dark else "light", "prefers-reduced-motion": "reduce"}
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": name, "value": value} for name, value in features.items()],
        )
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Page.navigate", url=path.as_uri())
        deadline = time.monotonic() + PATIENCE
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline, "the page does not load"
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """The value of an expression on the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def key(self, name: str, text: str = "") -> None:
        """Press a key and let it go."""
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, text=text, **_codes(name))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, **_codes(name))

    def click(self, selector: str) -> None:
        """Click into the middle of an element, as a mouse does."""
        where = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center',"
            " behavior: 'instant'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind_of in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind_of, x=where[0], y=where[1], button="left", clickCount=1)

    def screenshot(self, path: Path, clip: tuple[int, int, int, int] | None = None) -> None:
        """A picture of the window, or of a part of it: left, top, width, height."""
        part = (
            {}
            if clip is None
            else {"clip": {**dict(zip(("x", "y", "width", "height"), clip, strict=True)), "scale": 1}}
        )
        answer = self.send("Page.captureScreenshot", format="png", **part)
        path.write_bytes(base64.b64decode(answer["data"]))

    def complaints(self) -> list[Any]:
        """Errors and warnings of the page since it was opened."""
        return [
            event["params"]
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
            or (event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"))
            or (event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"))
        ]

    def requests(self) -> list[str]:
        """Everything but the page itself, and what is written in it, that was asked for."""
        asked = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("file:", "data:"))] + asked[1:]

    def close(self) -> None:
        """End the browser that this object started, and its children."""
        try:
            self._session = None
            self.send("Browser.close")
        except (AssertionError, OSError):
            self._process.kill()
        self._process.wait(PATIENCE)
        self._to.close()
        self._from.close()


def _codes(name: str) -> dict[str, int]:
    codes = {
        "ArrowLeft": 37,
        "ArrowUp": 38,
        "ArrowRight": 39,
        "ArrowDown": 40,
        "Home": 36,
        "End": 35,
        "Enter": 13,
        "Tab": 9,
        " ": 32,
    }
    return {"windowsVirtualKeyCode": codes[name]} if name in codes else {}
