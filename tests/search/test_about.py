from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image, PngImagePlugin

from vsekit.search.metadata import picture_meta

XMP = """<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/">
 <dc:title><rdf:Alt><rdf:li xml:lang="x-default">Harbour</rdf:li></rdf:Alt></dc:title>
 <dc:subject><rdf:Bag><rdf:li>boats</rdf:li><rdf:li>Hamburg</rdf:li></rdf:Bag></dc:subject>
 </rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>"""


def said(image: Image.Image, format: str = "JPEG", **options: object) -> dict[str, object]:
    buffer = BytesIO()
    image.save(buffer, format, **options)
    with Image.open(buffer) as opened:
        meta = picture_meta(opened)
    return {name: value for name, value in meta.items() if name not in ("width", "height")}


@pytest.fixture
def blank() -> Image.Image:
    return Image.new("RGB", (8, 8))


def exif(**tags: object) -> Image.Exif:
    written = Image.Exif()
    numbers = {"description": 0x010E, "title": 0x9C9B, "keywords": 0x9C9E}
    for name, value in tags.items():
        if name == "comment":
            written.get_ifd(0x8769)[0x9286] = value
        else:
            written[numbers[name]] = value
    return written


def test_exif_texts_are_read_in_their_character_sets(blank: Image.Image) -> None:
    tags = exif(
        description="Quarterly report", title="Bericht für März".encode("utf-16-le"), keywords="a;b".encode("utf-16-le"),
        comment=b"UNICODE\0" + "Ünïcode".encode("utf-16"),
    )  # fmt: skip
    assert said(blank, exif=tags) == {
        "description": "Quarterly report", "title": "Bericht für März", "keywords": "a;b", "comment": "Ünïcode",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("comment", "read"),
    [
        (b"ASCII\0\0\0caf\xe9", "café"),
        (b"ascii\0\0\0caf\xe9", "café"),
        (b"JIS\0\0\0\0\0" + "日本".encode("iso2022_jp"), "日本"),
        (b"\0\0\0\0\0\0\0\0" + "naïve".encode(), "naïve"),
    ],
)
def test_a_comment_is_read_in_the_character_set_it_names(blank: Image.Image, comment: bytes, read: str) -> None:
    assert said(blank, exif=exif(comment=comment)) == {"comment": read}


def test_a_windows_title_that_breaks_off_within_a_character_is_read_as_far_as_it_goes(blank: Image.Image) -> None:
    assert said(blank, exif=exif(title="Lake".encode("utf-16-le") + b"\x21")) == {"title": "Lake"}


@pytest.mark.parametrize("empty", ["OLYMPUS DIGITAL CAMERA", "   ", "SONY DSC", "\0\0\0"])
def test_what_cameras_write_for_nothing_says_nothing(blank: Image.Image, empty: str) -> None:
    assert said(blank, exif=exif(description=empty)) == {}


def test_xmp_is_read_and_never_one_that_declares_entities(blank: Image.Image) -> None:
    assert said(blank, xmp=XMP.encode()) == {"title": "Harbour", "keywords": "boats; Hamburg"}
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">]>' + XMP.replace("Harbour", "&a;")
    assert said(blank, xmp=bomb.encode()) == {}
    assert said(blank, xmp=XMP.encode()[:200]) == {}


def test_iptc_is_read(blank: Image.Image) -> None:
    def block(number: int, text: str) -> bytes:
        return b"\x1c\x02" + bytes([number]) + len(text).to_bytes(2, "big") + text.encode()

    data = block(5, "Gala") + block(25, "night") + block(25, "city") + block(120, "Guests arrive")
    resource = b"8BIM\x04\x04\0\0" + len(data).to_bytes(4, "big") + data + b"\0" * (len(data) % 2)
    segment = b"Photoshop 3.0\0" + resource
    buffer = BytesIO()
    blank.save(buffer, "JPEG")
    jpeg = buffer.getvalue()
    app13 = b"\xff\xed" + (len(segment) + 2).to_bytes(2, "big") + segment
    with Image.open(BytesIO(jpeg[:2] + app13 + jpeg[2:])) as opened:
        meta = picture_meta(opened)
    assert (meta["title"], meta["keywords"], meta["description"]) == ("Gala", "night; city", "Guests arrive")


def test_a_comment_in_a_file_is_read_and_cut(blank: Image.Image) -> None:
    assert said(blank, comment="made by hand") == {"comment": "made by hand"}
    assert len(str(said(blank, comment="x" * 5000)["comment"])) == 2000
    info = PngImagePlugin.PngInfo()
    info.add_text("comment", "of a drawing")
    assert said(blank, "PNG", pnginfo=info) == {"comment": "of a drawing"}
