"""Known weaknesses of the installed packages (pip-audit), where its database can be reached; says so where it can't.

Without a network it ends within `LOOK_SECONDS`, and never fails for want of one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

DATABASE = "https://pypi.org/pypi/pip/25.0/json"  # what pip-audit asks for every package
LOOK_SECONDS, SECONDS = 5.0, 120.0
LOOK = "import json, sys, urllib.request as u; json.load(u.urlopen(sys.argv[1], timeout=4))['vulnerabilities']"
OPTIONS = ["--skip-editable", "--progress-spinner", "off", "--timeout", "5", "--format", "json"]
NOT_CHECKED = "Packages were NOT checked for known weaknesses: pip-audit's database can't be reached from here."


def reachable(address: str = DATABASE, seconds: float = LOOK_SECONDS) -> bool:
    """In a process of its own: looking up a name can take longer than any time limit of a request."""
    try:
        done = subprocess.run([sys.executable, "-c", LOOK, address], capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def audited() -> list[dict[str, Any]] | None:
    """What pip-audit says of each package; None where it has nothing to say."""
    try:
        command = [sys.executable, "-m", "pip_audit", *OPTIONS]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        return list(json.loads(done.stdout)["dependencies"])
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return None


def report(packages: list[dict[str, Any]] | None) -> tuple[int, list[str]]:
    """The exit code, and what to say."""
    if packages is None:
        return 0, [NOT_CHECKED]
    left = [package["name"] for package in packages if "vulns" not in package]
    weak = [f"  {p['name']} {p['version']}: {w['id']}" for p in packages for w in p.get("vulns", ())]
    said = [f"pip-audit: {len(packages) - len(left)} packages checked, {len(weak)} known weaknesses.", *weak]
    if left:
        said.append(f"NOT checked, since the database does not know them: {', '.join(left)}.")
    return int(bool(weak)), said


def main() -> int:
    code, said = report(audited() if reachable() else None)
    print("\n".join(said))
    return code


if __name__ == "__main__":
    sys.exit(main())
