"""Walks through docs/walks.md in a fresh environment, and says what each walk took.

python -m tools.walks                       # builds the wheel, and an environment for it
python -m tools.walks --write               # and writes the times into the page
python -m tools.walks --programs DIR/bin    # in an environment that is there
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import httpx

from tools.walks.environment import build_wheel, make_environment
from tools.walks.running import PAGE, Time, WalkError, read, timed, walk_through


def look(client: httpx.Client) -> None:
    client.get("/").raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the times into docs/walks.md")
    parser.add_argument("--programs", type=Path, help="the folder of `vse` and `python`")
    parser.add_argument("--only", default="", help="walks whose title holds this")
    options = parser.parse_args()
    times: dict[str, Time] = {}
    with tempfile.TemporaryDirectory(prefix="vsekit-walks-") as name:
        folder = Path(name)
        programs = options.programs or make_environment(build_wheel(folder), folder / "environment")
        for walk in read(PAGE.read_text(encoding="utf-8")):
            if options.only not in walk.title:
                continue
            (folder / walk.title).mkdir()
            try:
                times[walk.title] = walk_through(walk, programs.absolute(), folder / walk.title, look)
            except WalkError as error:
                sys.exit(str(error))
            print(
                f"{walk.title}: {times[walk.title].cpu:.0f} s of one core, {times[walk.title].clock:.0f} s", flush=True
            )
    if options.write:
        PAGE.write_text(timed(PAGE.read_text(encoding="utf-8"), times), encoding="utf-8")


if __name__ == "__main__":
    main()
