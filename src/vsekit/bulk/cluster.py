"""Ray's nodes: started here or joined, and checked before they are given work.

What a person can mend is found within a minute: an address where no cluster answers, a node without vsekit or with another
version of it or of what it computes with, a node that does not see the files. Nothing is sent to Ray's makers, and what Ray is
started here listens on this machine alone.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vsekit import threads
from vsekit.errors import UserError, missing_extra
from vsekit.version import code

#: Seconds for a cluster to answer, and for its nodes, which may have to start a process.
PATIENCE, START = 15.0, 40.0
#: What vectors are computed with: module and package. Nodes must have those that are loaded here, in the same version.
PACKAGES = {
    "torch": "torch",
    "numpy": "numpy",
    "PIL": "pillow",
    "onnxruntime": "onnxruntime",
    "transformers": "transformers",
    "tokenizers": "tokenizers",
    "timm": "timm",
    "efficientnet_lite_pytorch": "efficientnet_lite_pytorch",
    "pyarrow": "pyarrow",
}
_STARTED = "start one with: ray start --head; on further machines: ray start --address HOST:PORT"


def connect(address: str | None, workers: int | None = None) -> Any:
    """The module `ray`, connected to a cluster; see `vsekit.bulk.ray.Ray`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address is None:
        # Ray's own switch for machines that are no cluster: it then listens on the loopback address alone.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise missing_extra("ray", "ray") from None
    if ray.is_initialized():
        return ray
    if address is None:
        folder = _short_folder()
        atexit.register(_end, ray, folder)
        cores = workers or threads.most()
        _begin(ray, "local", num_cpus=cores, include_dashboard=False, _temp_dir=str(folder))
    else:
        _look_for(address)
        try:
            _begin(ray, address)
        except (OSError, RuntimeError, ValueError) as error:
            raise _no_cluster(address, str(error).strip().splitlines()[0]) from None
    return ray


def _begin(ray: Any, address: str, **options: Any) -> None:
    """`ray.init`."""
    with _hushed():
        ray.init(address, logging_level="ERROR", log_to_driver=False, **options)
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what Ray would say on stderr: it is in its logs, and what matters is an exception."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _short_folder() -> Path:
    """For sockets, whose paths may not be long."""
    usual = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="vse-", dir=usual if len(usual) < 24 else "/tmp"))


def _end(ray: Any, folder: Path) -> None:
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def _look_for(address: str) -> None:
    """UserError where no cluster answers; Ray itself would try for minutes."""
    if address == "auto":
        return
    found = re.fullmatch(r"\[?([^\[\]/]+)\]?:(\d+)", address)
    if not found:
        raise UserError(
            f"'{address}' is no address of a Ray cluster",
            field="--ray-address",
            remedy="Give HOST:PORT of its head, as ray start said, from a machine that has joined it; or auto.",
        )
    try:
        socket.create_connection((found[1], int(found[2])), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from None
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    failed: list[Exception] = []

    def ask() -> None:
        try:
            GcsClient(address=address)
        except Exception as error:
            failed.append(error)

    asked = threading.Thread(target=ask, daemon=True)
    with _hushed():
        asked.start()
        asked.join(PATIENCE)
    if asked.is_alive():
        raise _no_cluster(address, f"no answer in {PATIENCE:.0f} seconds")
    if failed and "token" in str(failed[0]):  # Ray sends its token to an address that a person names only when told to
        raise UserError(
            f"the Ray cluster at {address} wants its token",
            field="--ray-address",
            remedy="Set RAY_AUTH_MODE=token; ~/.ray/auth_token must hold what ray get-auth-token says on the head's machine.",
        )


def _no_cluster(address: str, why: str) -> UserError:
    return UserError(
        f"no Ray cluster at {address}: {why}", field="--ray-address", remedy=f"Where there is none, {_STARTED}"
    )


def check_nodes(ray: Any, paths: Sequence[Path] = ()) -> None:
    """UserError where a node can't do the work, with its name and the remedy. paths: files that all of them must see."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = {"vsekit": code()}  # Ray itself compares Python
    here |= {name: version(name) for module, name in PACKAGES.items() if module in sys.modules}
    look, texts, until = ray.remote(_look()), [str(path) for path in paths], time.monotonic() + START
    todo = _alive(ray)
    while todo:
        asked = {}
        for node in todo:
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": there}
            asked[look.options(**options).remote(sorted(here), texts)] = node
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=max(until - time.monotonic(), 1.0))
        again = []
        for ref, node in asked.items():
            if ref not in ready:
                raise _silent(node_name(ray, node))
            try:
                found, absent = ray.get(ref)
            except ray.exceptions.TaskUnschedulableError:  # it has just come, or just gone
                again.append(node)
                continue
            except ray.exceptions.RayError as error:
                raise UserError(
                    f"node {node_name(ray, node)} can't work: {str(error).strip().splitlines()[-1]}",
                    field="--ray-address",
                ) from None
            _compare(node_name(ray, node), here, found)
            if absent:
                raise unreadable(node_name(ray, node), Path(absent[0]))
        time.sleep(0.5 * bool(again))
        todo = [node for node in _alive(ray) if node in again]
        if todo and time.monotonic() > until:
            raise _silent(node_name(ray, todo[0]))


def _alive(ray: Any) -> list[str]:
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def _silent(node: str) -> UserError:
    return UserError(
        f"node {node} has not answered in {START:.0f} seconds",
        field="--ray-address",
        remedy="Look at that machine: ray status; take it out of the cluster with ray stop, or start it anew.",
    )


def _look() -> Any:
    """What a node is asked. It goes over as text, not as a name: vsekit may not be there."""

    def look(wanted: list[str], paths: list[str]) -> tuple[dict[str, str | None], list[str]]:
        import os
        from importlib.metadata import PackageNotFoundError, version

        found: dict[str, str | None] = {}
        for name in wanted:
            try:
                if name == "vsekit":
                    import vsekit.version

                    found[name] = getattr(vsekit.version, "code", lambda: vsekit.version.__version__)()
                else:
                    found[name] = version(name)
            except (ImportError, PackageNotFoundError):
                found[name] = None
        return found, [path for path in paths if not os.access(path, os.R_OK)]

    return look


def _compare(node: str, here: dict[str, str], there: dict[str, str | None]) -> None:
    for name, wanted in here.items():
        found = there.get(name)
        if found == wanted:
            continue
        what = f"has no {name}" if found is None else f"has {name} {found}, and here it is {wanted}"
        install = f"pip install {name}=={wanted}"
        if name == "vsekit":
            install = "pip install 'vsekit[ray]' of the same version, with the extras that are installed here"
        raise UserError(
            f"node {node} {what}",
            field="--ray-address",
            remedy=f"On that machine: {install}; then ray stop, and ray start again.",
        )


def unreadable(node: str, path: Path) -> UserError:
    return UserError(
        f"node {node} can't read this file, which can be read here",
        file=path,
        remedy="Put the files where every node has them under the same path, for example on a shared disk.",
    )


def node_name(ray: Any, node: str) -> str:
    """What a person calls a node: its name or address, and the beginning of Ray's number for it."""
    found = next((one["NodeName"] or one["NodeManagerAddress"] for one in ray.nodes() if one["NodeID"] == node), "gone")
    return f"{found} ({node[:8]})"
