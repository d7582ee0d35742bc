"""What a picture file says of itself: when it was taken, with what and where; upright size, folder and name.

    year month taken camera lens lat lon    from EXIF, where it is there and makes sense
    title description keywords comment      what was written into the file about it (`about`)
    written                                 the text in the picture, where it was read (`ocr`)
    width height                            of the upright picture
    folder name extension                   of the file
    dated                                   when it was taken, else when its file was last changed (in this machine's time)
    orientation                             landscape, portrait or square
    type                                    photo, screenshot or graphic, by name, camera and format

`taken` and `dated` are like "2021-07-04 15:30:00", so that texts compare as times do.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vsekit.data.decoding import upright_size
from vsekit.search.about import about_picture
from vsekit.search.items import Value
from vsekit.search.words import WRITTEN

if TYPE_CHECKING:
    from PIL import Image

# Tags of EXIF 2.32.
_MODEL, _DATE_TIME = 0x0110, 0x0132
_EXIF, _GPS = 0x8769, 0x8825
_ORIGINAL, _DIGITIZED, _LENS = 0x9003, 0x9004, 0xA434
_LATITUDE_REF, _LATITUDE, _LONGITUDE_REF, _LONGITUDE = 1, 2, 3, 4
_LONGEST = 200
_SCREENSHOT = re.compile(
    r"screen[ _-]?shot|screen[ _-]?capture|bildschirmfoto|schermafbeelding|schermata|captura de pantalla|capture d.écran",
    re.IGNORECASE,
)
_DRAWN = ("png", "gif", "webp", "bmp")  # formats that no camera writes
#: What `picture_meta` may find, and the text in a picture.
FIELDS = (
    *("width", "height", "year", "month", "taken", "camera", "lens", "lat", "lon"),
    *("title", "description", "keywords", "comment", WRITTEN),
)


def picture_meta(image: Image.Image) -> dict[str, Value]:
    """Of a picture just opened, before anything turns it. What is damaged is left out; PictureError if its pixels are."""
    width, height = upright_size(image)
    tags, exif, gps = {}, {}, {}
    try:
        found = image.getexif()
        tags = dict(found)
        exif, gps = found.get_ifd(_EXIF), found.get_ifd(_GPS)
    except Exception:  # damaged EXIF makes Pillow raise nearly anything; the picture itself may be whole
        pass
    meta: dict[str, Value] = {"width": width, "height": height}
    taken = next(filter(None, map(_time, (exif.get(_ORIGINAL), exif.get(_DIGITIZED), tags.get(_DATE_TIME)))), None)
    if taken:
        meta |= {"year": taken.year, "month": taken.month, "taken": taken.isoformat(" ")}
    meta |= {
        name: text for name, text in (("camera", _text(tags.get(_MODEL))), ("lens", _text(exif.get(_LENS)))) if text
    }
    latitude = _degrees(gps.get(_LATITUDE), gps.get(_LATITUDE_REF), 90)
    longitude = _degrees(gps.get(_LONGITUDE), gps.get(_LONGITUDE_REF), 180)
    if latitude is not None and longitude is not None:
        meta |= {"lat": latitude, "lon": longitude}
    return meta | about_picture(image, tags, exif)


def file_meta(path: str, folder: str) -> dict[str, Value]:
    """Of where a picture lies: what changes when it is renamed."""
    name = os.path.basename(path)
    extension = os.path.splitext(name)[1].lstrip(".").lower()
    return {"folder": folder, "name": name, "extension": "jpg" if extension == "jpeg" else extension}


def told_meta(meta: Mapping[str, Value], mtime_ns: int) -> dict[str, Value]:
    """What follows from what `picture_meta` and `file_meta` found."""
    width, height = float(meta.get("width", 0)), float(meta.get("height", 0))
    if _SCREENSHOT.search(str(meta.get("name", ""))):
        type = "screenshot"
    else:
        type = "graphic" if meta.get("extension") in _DRAWN and "camera" not in meta else "photo"
    changed = datetime.fromtimestamp(mtime_ns // 10**9).isoformat(" ")
    told: dict[str, Value] = {"dated": meta.get("taken", changed), "type": type}
    if width and height:
        wide = width / height
        told["orientation"] = "landscape" if wide > 1.1 else "portrait" if wide < 1 / 1.1 else "square"
    return told


def _time(value: Any) -> datetime | None:
    """EXIF's "2021:07:04 15:30:00"; cameras without a clock write zeros or blanks."""
    text = _text(value)[:19]
    try:
        return datetime.strptime(text, "%Y:%m:%d %H:%M:%S") if text else None
    except ValueError:
        return None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    if not isinstance(value, str):
        return ""
    return "".join(c for c in value.partition("\0")[0] if c.isprintable()).strip()[:_LONGEST]


def _degrees(value: Any, reference: Any, limit: int) -> float | None:
    """Degrees, minutes and seconds, and N, S, E or W → signed degrees."""
    try:
        degrees, minutes, seconds = (float(part) for part in value)
        result = degrees + minutes / 60 + seconds / 3600
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    if not (math.isfinite(result) and 0 <= result <= limit):
        return None
    return round(-result if _text(reference).upper() in ("S", "W") else result, 6)
