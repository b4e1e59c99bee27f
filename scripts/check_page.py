"""Check a report's page in Chromium: python scripts/check_page.py PAGE.html [--output FOLDER].

Prints size, entries of the contents, time to first paint, tables on demand, printed pages; then every finding: a request, a
message of the console, overflow of the body, and what axe-core reports at 1400, 800 and 390 pixels, light and dark. The exit
code is 1 where there is a finding. It speaks the DevTools protocol through a pipe, and needs Chromium and axe-core: --axe names
axe.min.js, which else is looked for in an installed package (axe-playwright-python, axe-selenium-python) and in node_modules.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

WIDTHS, HEIGHT, SCHEMES = (1400, 800, 390), 900, ("light", "dark")  # CSS pixels: a desk, a tablet, a phone
MAX_BYTES, MAX_ENTRIES, MAX_PAINT_MS, MAX_PRINTED_PAGES = 2_000_000, 15, 1000.0, 12
PAINT_TRIALS = 3  # of which the fastest counts: a busy host delays the others
BROWSER = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
           "--remote-debugging-pipe")  # fmt: skip
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PACKAGES = ("axe_playwright_python", "axe_selenium_python", "axe_core_python")
UNFOLD = "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
# what is shown on demand is there once no placeholder is left in sight
SETTLED = """new Promise((done) => { const look = () => [...document.querySelectorAll('[data-rows]')].some((part) =>
    part.checkVisibility() && !part.querySelector('table')) ? setTimeout(look, 50) : done(true); setTimeout(look, 100); })"""


class Browser:
    """A headless Chromium with one tab after another; `problems` are requests and messages of the console that it saw."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._to, self._last, self._received = reading, os.fdopen(writing, "wb"), 0, b""
        self._session = ""
        self.problems: list[str] = []

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a method of the DevTools protocol. Raises RuntimeError where it has an error."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            found = self._next()
            if found.get("id") == self._last:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return dict(found["result"])
            self._note(found)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            part = os.read(self._reading, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent" if not params["request"]["url"].startswith(("file:", "data:")):
                self.problems.append(f"requested {params['request']['url']}")
            case "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.problems.append(f"console: {params.get('entry', params).get('text', params.get('args'))}")
            case "Runtime.exceptionThrown":
                self.problems.append(f"script: {params['exceptionDetails']['text']}")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression, or the promise that it is, comes to. Raises RuntimeError where it throws."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:500])
        return found["result"].get("value")

    @contextmanager
    def tab(self, address: str, width: int = WIDTHS[0], scheme: str = "light", scripts: bool = True) -> Iterator[None]:
        """A tab with the page loaded, in which axe may run though the page's policy lets no other script run."""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setBypassCSP", enabled=True)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=address)
        while self._next_event() != "Page.loadEventFired":
            pass
        yield
        self._session = ""
        self.call("Target.closeTarget", targetId=target)

    def _next_event(self) -> str:
        found = self._next()
        self._note(found)
        return str(found.get("method"))


@contextmanager
def started(chromium: str) -> Iterator[Browser]:
    """A browser with an empty profile; Chromium reads the protocol from descriptor 3 and writes it to 4."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        command = ["/bin/bash", "-c", shell, chromium, *BROWSER, f"--user-data-dir={profile}"]
        with subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL) as process:
            os.close(theirs_in)
            os.close(theirs_out)
            browser = Browser(ours_in, ours_out)
            try:
                yield browser
            finally:
                process.terminate()


def axe_source(given: Path | None) -> str:
    """The text of axe.min.js. Raises SystemExit where it is not found."""
    folders = [Path(spec.origin).parent for name in PACKAGES if (spec := util.find_spec(name)) and spec.origin]
    found = [given] if given else [one for folder in folders for one in sorted(folder.rglob("axe.min.js"))]
    found += [Path("node_modules/axe-core/axe.min.js")]
    path = next((one for one in found if one.is_file()), None)
    if path is None:
        raise SystemExit(
            "axe.min.js not found: name it by --axe, or pip install axe-playwright-python, or npm install axe-core"
        )
    return path.read_text(encoding="utf-8")


def axe_findings(browser: Browser, axe: str) -> list[str]:
    """What axe-core reports of the tab as it is."""
    browser.value(f"{axe};0")
    options = json.dumps({"resultTypes": ["violations"], "preload": False, "runOnly": AXE_TAGS})
    short = "({id, impact, nodes}) => `${impact} ${id}, ${nodes.length} times, first ${nodes[0].html.slice(0, 200)}`"
    return list(browser.value(f"axe.run(document, {options}).then((found) => found.violations.map({short}))"))


def overflow(browser: Browser, width: int) -> list[str]:
    """That the body is wider than the screen."""
    wide = int(browser.value("document.documentElement.scrollWidth"))
    return [f"the page is {wide} pixels wide"] if wide > width else []


def figures(browser: Browser, address: str, page: Path, output: Path | None) -> list[str]:
    """Print the page's figures; the findings are those over their limits."""
    paints = []
    for _ in range(PAINT_TRIALS):
        with browser.tab(address):
            browser.value("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
            paints.append(float(browser.value("performance.getEntriesByName('first-contentful-paint')[0].startTime")))
            entries = int(browser.value("document.querySelectorAll('#contents a').length"))
            demanded = int(browser.value("document.querySelectorAll('[data-rows]').length"))
    with browser.tab(address):
        paper = browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)["data"]
    pdf = base64.b64decode(paper)
    if output is not None:
        (output / "print.pdf").write_bytes(pdf)
    printed = len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))
    made = (
        ("bytes", page.stat().st_size, MAX_BYTES), ("entries of the contents", entries, MAX_ENTRIES),
        ("ms to the first paint", round(min(paints)), MAX_PAINT_MS), ("printed pages", printed, MAX_PRINTED_PAGES),
    )  # fmt: skip
    print(*(f"{value:,} {name}" for name, value, _ in made), f"{demanded} tables on demand", sep="\n")
    return [f"{value:,} {name}, over {limit:,}" for name, value, limit in made if value > limit]


def without_scripts(browser: Browser, address: str) -> list[str]:
    """Tables on demand that say nothing where no script runs."""
    with browser.tab(address, scripts=False):
        silent = "[...document.querySelectorAll('[data-rows]')].filter((part) => !part.textContent.trim()).length"
        found = int(browser.value(silent))
    return [f"without scripts {found} tables on demand say nothing"] if found else []


def looked_at(browser: Browser, address: str, axe: str, output: Path | None) -> Iterator[str]:
    """Findings at each width and scheme, folded and, at the widest and the narrowest, unfolded; screenshots of the first."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            with browser.tab(address, width, scheme):
                if output is not None:
                    picture = browser.call("Page.captureScreenshot")["data"]
                    (output / f"{width}-{scheme}.png").write_bytes(base64.b64decode(picture))
                yield from (f"{width} {scheme}: {one}" for one in overflow(browser, width) + axe_findings(browser, axe))
    for width, scheme in ((WIDTHS[0], "light"), (WIDTHS[-1], "dark")):
        with browser.tab(address, width, scheme):
            browser.value(f"{UNFOLD}; {SETTLED}")
            yield from (f"{width} {scheme}, unfolded: {one}" for one in overflow(browser, width) + axe_findings(browser, axe))


def main() -> int:
    """Check the page that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js")
    parser.add_argument("--output", type=Path, help="folder for screenshots and a PDF")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    axe, address = axe_source(given.axe), given.page.resolve().as_uri()
    if given.output is not None:
        given.output.mkdir(parents=True, exist_ok=True)
    with started(given.chromium) as browser:
        findings = figures(browser, address, given.page, given.output)
        findings += without_scripts(browser, address)
        findings += looked_at(browser, address, axe, given.output)
        findings += dict.fromkeys(browser.problems)
    print(*findings, f"{len(findings)} findings" if findings else "no findings", sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
