"""A headless Chromium that tests drive: pages are opened, clicked, typed into and read.

It speaks the DevTools protocol (https://chromedevtools.github.io/devtools-protocol) over a pipe: messages are JSON,
each ended by a zero byte. That needs the browser alone, no driver and no package.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell")
_SECONDS = 30.0


def find_chromium() -> str | None:
    """The path of a Chromium on this machine; None if there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A context manager: the browser runs, with one page, until it is left.

    Args:
        program: the path of Chromium.
        profile: an empty folder for its files.
    """

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        words = [program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        words += ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars"]
        words += ["--disable-background-networking", "--disable-component-update", "--no-proxy-server", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(profile)},
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._read = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        """What the page reported: exceptions, and what its console has of errors and refused loads."""

    def __enter__(self) -> Browser:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.size(1200, 900)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (reply := self._message()).get("id") != self._number:
            self._note(reply)
        assert "error" not in reply, f"{method}: {reply['error']}"
        return reply["result"]

    def open(self, url: str) -> None:
        """Open an address and wait until it is loaded."""
        self.problems.clear()
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def size(self, width: int, height: int, phone: bool = False, dark: bool = False) -> None:
        """Size of the window in CSS pixels, whether it is a phone's, and the colour scheme."""
        density = 2 if phone else 1
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=density, mobile=phone
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _SECONDS
        while not self.value(expression):
            assert time.monotonic() < end, f"not within {_SECONDS} s: {expression}\n{self.text('body')}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What a reader sees of an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        """What a reader sees of each element that fits."""
        found = self.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((x) => x.innerText)")
        return list(found)

    def visible(self, selector: str) -> bool:
        """Whether an element is shown."""
        return bool(self.value(f"document.querySelector({json.dumps(selector)}).checkVisibility()"))

    def point(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """Scroll an element into view; returns a point of it, given as shares of its width and height."""
        box = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', inline: 'nearest'}); const b = e.getBoundingClientRect(); "
            "return [b.x, b.y, b.width, b.height]; })()"
        )
        return box[0] + x * box[2], box[1] + y * box[3]

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a point of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        """Click on a point of an element, given as shares of its width and height."""
        x, y = self.point(selector, x, y)
        self.hover(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Type a text into a field in place of what is there."""
        self.click(selector)
        self.value(f"document.querySelector({json.dumps(selector)}).select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.key("Delete")

    def key(self, name: str) -> None:
        """Press a key."""
        codes = {"Enter": 13, "Delete": 46, "ArrowRight": 39, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=codes[name])

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a list by its value."""
        self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)}; "
            "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def choose_file(self, selector: str, path: Path) -> None:
        """Choose a file in a file field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def picture(self, name: str) -> None:
        """Write a picture of the page, for people to look at, to the folder that LINFORMER_SCREENSHOTS names."""
        if folder := os.environ.get("LINFORMER_SCREENSHOTS"):
            found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
            Path(folder, f"{name}.png").write_bytes(base64.b64decode(found["data"]))

    def _message(self) -> Any:
        while b"\0" not in self._read:
            more = os.read(self._in, 1 << 16)
            assert more, "Chromium has ended"
            self._read += more
        message, _, self._read = self._read.partition(b"\0")
        return json.loads(message)

    def _note(self, event: Any) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(event["params"]["exceptionDetails"]))
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"]["text"])
