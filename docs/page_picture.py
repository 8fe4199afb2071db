"""The picture of docs/serve.md: the page that `nodewise serve` shows, with one node on it.

nodewise serve pubmed-model pubmed &
python docs/page_picture.py
"""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGE = "http://127.0.0.1:8000/#node=18746"  # a paper that gets another label than its own
TARGET = Path(__file__).parent / "figures" / "page.png"


def main() -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1240, "height": 1100})
        page.goto(PAGE)
        page.locator("#neighbours a").first.wait_for()
        page.screenshot(path=TARGET)
        browser.close()
    print(f"{TARGET} written")


if __name__ == "__main__":
    main()
