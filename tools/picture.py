"""Makes the picture of a report that the README shows: the first screen, as a browser draws it.

    python tools/picture.py                     # simulates the quick start without order, and takes its report
    python tools/picture.py runs/latest/report.html other.png --dark

Needs Chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from browser import Browser

ROOT = Path(__file__).parents[1]
MOST_BYTES = 200_000
"""A picture in a repository stays small."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", nargs="?", type=Path, help="a report; one is made if none is named")
    parser.add_argument("picture", nargs="?", type=Path, default=ROOT / "docs" / "pictures" / "report.png")
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--height", type=int, default=840)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = given.report or example(Path(folder) / "quickstart")
        with Browser(width=given.width, height=given.height, scheme="dark" if given.dark else "light") as browser:
            browser.open(report)
            browser.picture(given.picture)
    size = given.picture.stat().st_size
    print(f"{given.picture}: {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES:,} bytes; take a smaller part of the page")


def example(folder: Path) -> Path:
    """The report of a run that shows something: a flood that keeps no order."""
    from antecast.reporting.page import write
    from antecast.reporting.run import run_page
    from antecast.sim.run import run
    from antecast.sim.scenario import load_scenario

    scenario = load_scenario(ROOT / "examples/scenarios/quickstart.toml", ["protocol.name=r-broadcast"])
    run(scenario, out=folder)
    write(run_page(folder), folder / "report.html")
    return folder / "report.html"


if __name__ == "__main__":
    main()
