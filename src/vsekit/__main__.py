"""`python -m vsekit …` is `vse …`."""

from vsekit.cli import main

main()
