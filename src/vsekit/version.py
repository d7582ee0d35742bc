"""The version, in one place, and a name for the very code that runs."""

import hashlib
from pathlib import Path

__version__ = "0.1.0"


def code() -> str:
    """The version, with a fingerprint of vsekit's own sources: processes that work together have the same."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + file.read_bytes())
    return f"{__version__} ({digest.hexdigest()[:16]})"
