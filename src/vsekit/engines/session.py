"""A graph in ONNX Runtime, ready to run; without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vsekit.errors import UserError, missing_extra

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

#: The oldest onnxruntime that is known to run these graphs.
OLDEST = (1, 20)


def start_session(graph: Path | bytes, threads: int, remedy: str) -> InferenceSession:
    """A graph, a file or what is in it, ready to run on `threads` cores that sleep while there is nothing to do.

    remedy: what to do about a file that is no graph.
    """
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    source = graph if isinstance(graph, bytes) else str(graph)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise UserError(
            f"not a graph that onnxruntime can run: {str(error).splitlines()[0]}",
            file=None if isinstance(graph, bytes) else graph,
            remedy=remedy,
        ) from None


def import_onnxruntime() -> Any:
    """The package; UserError where it is missing or too old."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("onnxruntime", "onnx") from None
    version = tuple(int(number) for number in onnxruntime.__version__.split(".")[:2])
    if version < OLDEST:
        raise UserError(
            f"onnxruntime {onnxruntime.__version__} is too old, {OLDEST[0]}.{OLDEST[1]} or newer is needed",
            remedy="Install it with: pip install --upgrade 'vsekit[onnx]'",
        )
    return onnxruntime
