"""Puts a random sample of small faults to the tests that reach them, and says which survive.

python -m tools.mutants [--count 400] [--seed 0] [--only TEXT] [--tests TEST …] [--minutes 55] [--workers 2]

The working tree is copied and never changed. What tests reach is recorded once for the same sources and tests; finished
mutants are not run again. Both are kept in .mutants/, the result as .mutants/result.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutants.mutations import Mutant, sample
from tools.mutants.reach import Reach, read
from tools.mutants.run import environment, outcome

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
WHERE = ["training", "models", "features", "search"]
GLUE = ["meeting", "models", "outputs", "protocols", "rerank", "external"]
#: Seconds of tests a mutant is put to at most, the quickest first.
PATIENCE = 45.0


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only files whose path holds this")
    parser.add_argument("--tests", nargs="*", default=[], help="record these tests only")
    parser.add_argument("--minutes", type=float, default=55.0, help="begin no mutant after this time")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vsekit-mutants-") as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(options.workers)]
        kept, reach = _recorded(copies[0], options.tests, options.workers)
        files = [file for file in _files(copies[0]) if options.only in file]
        mutants = list(sample(copies[0], files, options.count, options.seed))
        done = Outcomes(kept / "outcomes.jsonl")
        _run_all(mutants, copies, reach, done, started + 60 * options.minutes)
    _report(mutants, done, options.seed)


def _copy(to: Path) -> Path:
    """What git knows of the tree, or would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    for name in names:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def _files(copy: Path) -> list[str]:
    source = copy / "src" / "vsekit"
    found = [file for room in WHERE for file in (source / room).rglob("*.py")]
    found += [file for name in GLUE if (file := source / "evaluation" / f"{name}.py").is_file()]
    return sorted(str(file.relative_to(copy)) for file in found)


def _recorded(copy: Path, tests: list[str], workers: int) -> tuple[Path, Reach]:
    """What the tests reach, and the folder it is kept in; recorded where these sources and tests are new."""
    digest = hashlib.sha256(json.dumps(tests).encode())
    for file in sorted(path for room in ("src", "tests") for path in (copy / room).rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(copy)).encode() + file.read_bytes())
    folder = KEPT / digest.hexdigest()[:16]
    whole = folder / "reach.json"
    if not whole.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print("Recording which lines the tests reach …", flush=True)
        variables = {"MUTANTS_RECORD": str(folder), "MUTANTS_SOURCE": str(copy / "src" / "vsekit")}
        command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider"]
        command += ["-p", "tools.mutants.record", "-n", str(workers), *tests]
        ended = subprocess.run(command, cwd=copy, env=environment(copy) | variables)
        if ended.returncode not in (0, 1):  # a test that fails kills no mutant, and is left out
            sys.exit("The tests could not be run.")
        reach = read(folder, copy)
        for file in (*folder.glob("lines.*"), *folder.glob("tests-*.json")):
            file.unlink()
        whole.write_text(json.dumps(asdict(reach)))
    return folder, Reach(**json.loads(whole.read_text()))


class Outcomes:
    """Outcome by mutant, a line each in a file that only grows."""

    def __init__(self, file: Path) -> None:
        self.file, self.lock = file, threading.Lock()
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
        self.known: dict[str, dict[str, Any]] = {row["key"]: row for row in rows}

    def __contains__(self, mutant: Mutant) -> bool:
        return _key(mutant) in self.known

    def get(self, mutant: Mutant) -> dict[str, Any] | None:
        return self.known.get(_key(mutant))

    def add(self, mutant: Mutant, **values: Any) -> None:
        row = {"key": _key(mutant), **mutant.summary, **values}
        with self.lock, self.file.open("a") as file:
            self.known[row["key"]] = row
            file.write(json.dumps(row) + "\n")


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.file}\0{mutant.code}".encode()).hexdigest()[:16]


def _run_all(mutants: list[Mutant], copies: list[Path], reach: Reach, done: Outcomes, end: float) -> None:
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        if mutant not in done:
            waiting.put(mutant)

    def work(copy: Path) -> None:
        while time.monotonic() < end:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            tests, begun = reach.tests(mutant, PATIENCE), time.monotonic()
            limit = 20 + 3 * sum(reach.seconds[test] for test in tests)
            what = outcome(mutant, copy, tests, limit) if tests else "unreached"
            done.add(mutant, outcome=what, tests=len(tests), seconds=round(time.monotonic() - begun, 1))
            print(f"{mutant.file}:{mutant.line}: {what}", flush=True)

    threads = [threading.Thread(target=work, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _report(mutants: list[Mutant], done: Outcomes, seed: int) -> None:
    rows = [row for mutant in mutants if (row := done.get(mutant))]
    alive = sorted(
        (row for row in rows if row["outcome"] in ("survived", "unreached")), key=lambda r: (r["file"], r["line"])
    )
    for row in alive:
        print(f"\n{row['file']}:{row['line']} {row['outcome']} {row['tests']} tests\n{row['diff']}")
    share = 1 - len(alive) / len(rows) if rows else float("nan")
    print(
        f"\n{len(rows) - len(alive)} of {len(rows)} mutants died ({share:.1%}); {len(mutants) - len(rows)} were not run."
    )
    result = {"seed": seed, "drawn": len(mutants), "run": len(rows), "killed_share": share, "mutants": rows}
    (KEPT / "result.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
