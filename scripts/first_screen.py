"""Make the report on the committed runs, and the picture of its first screen: python scripts/first_screen.py [FILE.png].

It writes reports/comparison.html from reports/*.jsonl.gz with all published sheets, and docs/first-screen.png at 1400 x 900
pixels, or only the picture of that page into FILE. It needs Chromium.
"""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from clmembench.cli.program import app
from scripts.check_page import started

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "reports" / "comparison.html", ROOT / "docs" / "first-screen.png"


def main() -> None:
    """Make the page and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("picture", nargs="?", type=Path, help="the picture alone, of the page as it is")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    if given.picture is None:
        runs = sorted(map(str, PAGE.parent.glob("*.jsonl.gz")))
        app(["report", *runs, "--beside", "all", "-o", str(PAGE), "--overwrite"], standalone_mode=False)
    with started(given.chromium) as browser, browser.tab(PAGE.as_uri()):
        shown = browser.call("Page.captureScreenshot")["data"]
    (given.picture or PICTURE).write_bytes(base64.b64decode(shown))


if __name__ == "__main__":
    main()
