"""Several exported models as one: `vse export RUN/ensemble.json --to onnx OUT`.

    0/, 1/, …      the members, each a folder that stands for itself (`folder`)
    README.md      how their vectors are put together
    config.json    the fingerprint of all together, and the SHA-256 of each member's config.json, which vouches for its files

The vectors of a member are taken as its similarity wants them (of unit length for the cosine), put side by side and divided by
√M: the inner product of two such is the mean of the members' scores. `vsekit.search.ensemble` does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.errors import UserError
from vsekit.export.runtime import AGAIN, CONFIG, FORMAT, Exported, open_exported, read_config
from vsekit.files import checksum, fingerprint, write_text
from vsekit.seals import read_sealed, sums_of, write_sealed

README = """# Several vsekit models as one

Model `{fingerprint}`: {count} members, {dim} dimensions in all. Each folder, {folders}, is an exported model of its own, with a
README that says how to run it. The score of a picture and a sentence is the mean of the members' scores. As one vector: divide
each member's by its length where its `config.json` says `"similarity": "cosine"`, put them side by side in this sequence, and
divide by √{count}.

`vse index FOLDER photos` indexes with this folder, and searches that index without torch.
"""


class ExportedEnsemble:
    """What `open_ensemble` gives. fingerprint: that of the same ensemble in a search index. members: in their sequence."""

    def __init__(self, folder: Path, config: dict[str, Any], members: list[Exported], again: str) -> None:
        self.folder, self.config, self.members, self.again = folder, config, members, again
        self.fingerprint: str = config["fingerprint"]
        self.dim = sum(member.dim for member in members)

    def check(self) -> None:
        """UserError where a file is not the one that was exported."""
        for name, known in self.config["files"].items():
            _vouched(self.folder / name, known, self.again)
        for member in self.members:
            member.check()


def ensemble_fingerprint(members: Iterable[str]) -> str:
    """Of an ensemble, from those of its members in their sequence."""
    return fingerprint("ensemble", *members)


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The members' vectors, each (n, dim), as those of the ensemble."""
    return np.concatenate(parts, axis=1) / np.float32(math.sqrt(len(parts)))


def seal_ensemble(folder: Path, names: Sequence[str]) -> str:
    """Makes one model of the exported members in `folder`, and gives its fingerprint."""
    members = [open_exported(folder / name) for name in names]
    own = ensemble_fingerprint(member.fingerprint for member in members)
    dim = sum(member.dim for member in members)
    words = {"fingerprint": own, "count": len(names), "dim": dim, "folders": ", ".join(f"`{name}`" for name in names)}
    write_text(folder / "README.md", README.format(**words))
    files = sums_of(folder, [folder / "README.md", *(folder / name / CONFIG for name in names)])
    config = {"vsekit_export": FORMAT, "fingerprint": own, "dim": dim, "members": list(names), "files": files}
    write_sealed(folder / CONFIG, config)
    return own


def is_ensemble(folder: Path | str) -> bool:
    """Whether a folder holds several exported models as one."""
    return "members" in (read_config(folder) or {})


def open_ensemble(folder: Path | str, again: str = AGAIN) -> ExportedEnsemble:
    """Opens a folder made by `vse export RUN/ensemble.json --to onnx`. Graphs are loaded when they are first needed."""
    folder = Path(folder)
    try:
        config = read_sealed(folder / CONFIG, again)
        if config["vsekit_export"] != FORMAT:
            raise ValueError(f"format {config['vsekit_export']}, and this version reads format {FORMAT}")
        names, files = config["members"], config["files"]
        if not names or any(Path(name).name != name for name in names):
            raise ValueError("its members are not folders in it")
        if len(set(names)) < len(names) or any(f"{name}/{CONFIG}" not in files for name in names):
            raise ValueError("its members have no checksums, or one is named twice")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("no exported ensemble here", file=folder, remedy=again) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"not an exported ensemble: {error}", file=folder / CONFIG, remedy=again) from None
    for name in names:
        _vouched(folder / name / CONFIG, files[f"{name}/{CONFIG}"], again)
    members = [open_exported(folder / name, again=again) for name in names]
    found = ensemble_fingerprint(member.fingerprint for member in members)
    if found != config["fingerprint"]:
        raise UserError(
            f"these members are the ensemble {found}, not {config['fingerprint']}", file=folder / CONFIG, remedy=again
        )
    return ExportedEnsemble(folder, config, members, again)


def _vouched(path: Path, known: str, again: str) -> None:
    try:
        found = checksum(path)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("this file of the exported ensemble is missing", file=path, remedy=again) from None
    if found != known:
        raise UserError(
            "this is not the file that was exported: it is damaged, or belongs to another model",
            file=path,
            remedy=again,
        )
