"""Puts a random sample of small faults to the tests that reach them, and says which survive.

python -m tools.mutants [--count 400] [--seed 0] [--only TEXT] [--tests TEST …] [--minutes 55] [--workers 2]
                        [--patience 45] [--write]

The working tree is copied and never changed. What tests reach is recorded, later only of test files that have changed. A
mutant that died is not run again as long as its function and the test that killed it are the same; one that survived, as
long as all sources and tests are. A test that kills is run without the fault, too, once: where it fails even so, it does not
count. Both are kept in .mutants/; with --write, the result goes to tools/mutants/result.json too.
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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutants.mutations import Mutant, sample
from tools.mutants.reach import Reach, carried, joined, read, text_of
from tools.mutants.run import Outcome, environment, outcome, tested

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
WHERE = ["training", "models", "features", "search"]
GLUE = ["meeting", "models", "outputs", "protocols", "rerank", "external"]
#: Its tests start a server of its own, which takes longer than all tests of another mutant.
LEFT_OUT = "milvus"
#: Seconds of tests a mutant is put to at most, as they took when they were recorded.
PATIENCE = 45.0
ALIVE = ("survived", "unreached")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=400, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="of those drawn, only mutants of files whose path holds this")
    parser.add_argument("--tests", nargs="*", default=[], help="record these tests only")
    parser.add_argument("--minutes", type=float, default=55.0, help="begin no mutant after this time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        help="seconds of tests a mutant is put to; more, where they were recorded on a busy machine",
    )
    parser.add_argument("--write", action="store_true", help="keep the result in tools/mutants/result.json")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vsekit-mutants-") as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(options.workers)]
        kept, reach = _recorded(copies[0], options.tests, options.workers)
        drawn = sample(copies[0], _files(copies[0]), options.count, options.seed)
        mutants = [mutant for mutant in drawn if options.only in mutant.file]
        done = Outcomes(KEPT / "outcomes.jsonl", copies[0], kept.name)
        _run_all(mutants, copies, reach, done, started + 60 * options.minutes, options.patience)
    result = _report(mutants, done, options.seed)
    (KEPT / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    if options.write:
        (Path(__file__).parent / "result.json").write_text(json.dumps(_short(result), indent=1) + "\n")


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
    return sorted(str(file.relative_to(copy)) for file in found if LEFT_OUT not in file.parts)


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
        older = max(KEPT.glob("*/reach.json"), key=lambda file: file.stat().st_mtime, default=None)
        known = carried(Reach(**json.loads(older.read_text())), copy) if older else None
        command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider"]
        command += ["-p", "tools.mutants.record", "-n", str(workers)]
        changed = tests if known is None else _test_files(copy, tests, known)
        if known is None or changed:
            ended = subprocess.run([*command, *changed], cwd=copy, env=environment(copy) | variables)
            if ended.returncode not in (0, 1):  # a test that fails kills no mutant, and is left out
                sys.exit("The tests could not be run.")
        reach = read(folder, copy)
        for file in (*folder.glob("lines.*"), *folder.glob("tests-*.json")):
            file.unlink()
        whole.write_text(json.dumps(asdict(joined(known, reach) if known else reach)))
    return folder, Reach(**json.loads(whole.read_text()))


def _test_files(copy: Path, tests: list[str], known: Reach) -> list[str]:
    """Those that have changed since they were recorded."""
    found = [*(copy / "tests").rglob("test_*.py"), *((copy / "src").rglob("*.py") if not tests else ())]
    names = sorted(str(file.relative_to(copy)) for file in found)
    return [name for name in names if name not in known.tested and (not tests or name.startswith(tuple(tests)))]


class Outcomes:
    """Outcome by mutant, a line each in a file that only grows; the last one counts.

    Args:
        state: names the sources and tests.
    """

    def __init__(self, file: Path, copy: Path, state: str) -> None:
        self.file, self.copy, self.state, self.lock = file, copy, state, threading.Lock()
        self.sound: set[str] = set()
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
        self.known: dict[str, dict[str, Any]] = {row["key"]: row for row in rows}

    def get(self, mutant: Mutant) -> dict[str, Any] | None:
        row = self.known.get(_key(mutant))
        if row is None or row["state"] == self.state:
            return row
        return row if row["killer"] and row["killer_text"] == text_of(self.copy, row["killer"]) else None

    def add(self, mutant: Mutant, found: Outcome | None, **values: Any) -> None:
        killer = found.killer if found else ""
        row = {"key": _key(mutant), **mutant.summary, "outcome": found.what if found else "unreached", **values}
        row |= {"killer": killer, "killer_text": text_of(self.copy, killer), "state": self.state}
        with self.lock, self.file.open("a") as file:
            self.known[row["key"]] = row
            file.write(json.dumps(row) + "\n")

    def is_sound(self, found: Outcome, copy: Path, tests: list[str], seconds: float) -> bool:
        """Whether the test that killed passes without the fault; where none could be run, whether they can."""
        if found.what != "killed" or found.killer in self.sound:
            return True
        if not found.killer:
            return tested(copy, tests, seconds, "--collect-only").what == "survived"
        if tested(copy, [found.killer], seconds).what != "survived":
            return False
        self.sound.add(found.killer)
        return True


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(f"{mutant.file}\0{mutant.around}\0{mutant.diff}".encode()).hexdigest()[:16]


def _run_all(
    mutants: list[Mutant], copies: list[Path], reach: Reach, done: Outcomes, end: float, patience: float
) -> None:
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        if done.get(mutant) is None:
            waiting.put(mutant)
    print(f"{len(mutants)} mutants, {waiting.qsize()} to run.", flush=True)

    def work(copy: Path) -> None:
        while time.monotonic() < end:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            tests, begun = reach.tests(mutant, patience), time.monotonic()
            seconds = sum(reach.seconds[test] for test in tests)
            found = outcome(mutant, copy, tests, seconds) if tests else None
            while found and not done.is_sound(found, copy, tests, seconds):
                if not found.killer:
                    sys.exit(f"The tests of {mutant.file} can't be collected without any fault.")
                print(f"{found.killer} fails without any fault, and is left out", flush=True)
                tests.remove(found.killer)
                found = outcome(mutant, copy, tests, seconds) if tests else None
            done.add(mutant, found, tests=len(tests), seconds=round(time.monotonic() - begun, 1))
            print(f"{mutant.file}:{mutant.line}: {found.what if found else 'unreached'}", flush=True)

    with ThreadPoolExecutor(len(copies)) as threads:
        for _ in threads.map(work, copies):
            pass


def _report(mutants: list[Mutant], done: Outcomes, seed: int) -> dict[str, Any]:
    """Prints those alive, with what was changed; gives all outcomes."""
    rows = sorted((row for mutant in mutants if (row := done.get(mutant))), key=lambda r: (r["file"], r["line"]))
    alive = [row for row in rows if row["outcome"] in ALIVE]
    for row in alive:
        print(f"\n{row['file']}:{row['line']} {row['outcome']} {row['tests']} tests\n{row['diff']}")
    share = 1 - len(alive) / len(rows) if rows else float("nan")
    print(
        f"\n{len(rows) - len(alive)} of {len(rows)} mutants died ({share:.1%}); {len(mutants) - len(rows)} were not run."
    )
    return {"seed": seed, "drawn": len(mutants), "run": len(rows), "killed_share": round(share, 4), "mutants": rows}


def _short(result: dict[str, Any]) -> dict[str, Any]:
    """Counts by room, and those alive."""
    rooms: dict[str, Counter[str]] = {}
    for row in result["mutants"]:
        rooms.setdefault(row["file"].split("/")[2], Counter())[row["outcome"]] += 1
    alive = [
        {name: row[name] for name in ("file", "outcome", "diff")}
        for row in result["mutants"]
        if row["outcome"] in ALIVE
    ]
    return {**{name: value for name, value in result.items() if name != "mutants"}, "rooms": rooms, "alive": alive}


if __name__ == "__main__":
    main()
