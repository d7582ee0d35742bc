"""What people and programs wrote into a picture file about it: EXIF, IPTC and XMP.

    title         XPTitle, IPTC's object name (2:05), XMP's dc:title
    description   ImageDescription, IPTC's caption (2:120), XMP's dc:description
    keywords      XPKeywords, IPTC's keywords (2:25), XMP's dc:subject; "; " between them
    comment       UserComment, XPComment, the comment of a JPEG or a PNG

The first of each that says something counts. What is damaged says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from PIL import Image

# Tags of EXIF 2.32, and those of Windows in UTF-16.
_DESCRIPTION, _USER_COMMENT = 0x010E, 0x9286
_XP_TITLE, _XP_COMMENT, _XP_KEYWORDS = 0x9C9B, 0x9C9C, 0x9C9E
#: What cameras write where nobody wrote anything.
_EMPTY = re.compile(
    r"(olympus|samsung|sony|minolta|konica minolta|kodak|nikon) *(digital camera|dsc)?|dsc|[\W_]*|charset=.*", re.I
)
_CHARSETS = {b"ASCII": "latin-1", b"UNICODE": "utf-16", b"JIS": "iso2022_jp", b"": "utf-8"}
_DC = "{http://purl.org/dc/elements/1.1/}"
_LI = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li"
LONGEST = 2000  # characters of each
_LARGEST = 2**18  # bytes of XMP


def about_picture(image: Image.Image, tags: Mapping[int, Any], exif: Mapping[int, Any]) -> dict[str, str]:
    """tags, exif: of the picture's EXIF and of its Exif part."""
    iptc, xmp = _iptc(image), _xmp(image)
    found = {
        "title": (_wide(tags.get(_XP_TITLE)), *iptc.get(5, []), *xmp.get("title", [])),
        "description": (_plain(tags.get(_DESCRIPTION)), *iptc.get(120, []), *xmp.get("description", [])),
        "keywords": (_wide(tags.get(_XP_KEYWORDS)), "; ".join(iptc.get(25, [])), "; ".join(xmp.get("subject", []))),
        "comment": (_comment(exif.get(_USER_COMMENT)), _wide(tags.get(_XP_COMMENT)), _plain(image.info.get("comment"))),
    }
    said = {name: next(filter(None, map(_clean, texts)), "") for name, texts in found.items()}
    return {name: text for name, text in said.items() if text}


def _clean(text: str) -> str:
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST]
    return "" if _EMPTY.fullmatch(text) else text


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            value = value.decode("latin-1")
    return value.partition("\0")[0] if isinstance(value, str) else ""


def _wide(value: Any) -> str:
    """Windows' tags are UTF-16 in bytes."""
    if isinstance(value, tuple):
        value = bytes(v for v in value if isinstance(v, int) and 0 <= v < 256)
    return value.decode("utf-16-le", errors="ignore").rstrip("\0") if isinstance(value, bytes) else _plain(value)


def _comment(value: Any) -> str:
    """Eight bytes name the character set."""
    if not isinstance(value, bytes):
        return _plain(value)
    charset = _CHARSETS.get(value[:8].strip(b"\0 ").upper())
    return _plain(value) if charset is None else value[8:].decode(charset, errors="ignore").strip("\0")


def _iptc(image: Image.Image) -> dict[int, list[str]]:
    """Record 2: number of the data set → texts."""
    from PIL import IptcImagePlugin

    found: dict[int, list[str]] = {}
    with suppress(Exception):  # damaged blocks make Pillow raise nearly anything
        for (record, number), values in (IptcImagePlugin.getiptcinfo(image) or {}).items():  # type: ignore[arg-type]
            if record == 2 and number in (5, 25, 120):
                found[number] = [_plain(value) for value in (values if isinstance(values, list) else [values])]
    return found


def _xmp(image: Image.Image) -> dict[str, list[str]]:
    """The Dublin Core of XMP: name → texts. One with declarations of its own is no XMP, and not read."""
    data = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or b""
    data = data.encode() if isinstance(data, str) else data
    if not data or not isinstance(data, bytes) or len(data) > _LARGEST or b"<!" in data:
        return {}
    start, end = data.find(b"<"), data.rfind(b">")
    try:
        root = ElementTree.fromstring(data[start : end + 1])
    except (ElementTree.ParseError, ValueError, LookupError):
        return {}
    names = ("title", "description", "subject")
    return {name: list(_listed(root.iter(f"{_DC}{name}"))) for name in names}


def _listed(elements: Iterable[ElementTree.Element]) -> Iterable[str]:
    for element in elements:
        yield from (one.text for one in element.iter(_LI) if one.text)
