"""Picture files of every kind, written by Pillow from one picture."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image


def photo(width: int = 60, height: int = 44, seed: int = 0) -> Image.Image:
    """Smooth colours that reach from black to white."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    coarse[0, 0], coarse[3, 4] = 0, 255
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BILINEAR)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def alpha(image: Image.Image) -> Image.Image:
    """Opaque on the left, clear on the right."""
    ramp = np.tile(np.linspace(255, 0, image.width).astype(np.uint8), (image.height, 1))
    return Image.fromarray(ramp)


def turned(tag: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = tag
    return exif


def every_kind(width: int = 60, height: int = 44, seed: int = 0) -> dict[str, bytes]:
    rgb = photo(width, height, seed)
    grey = rgb.convert("L")
    values = np.asarray(grey)
    rgba, la = rgb.copy(), grey.copy()
    rgba.putalpha(alpha(rgb))
    la.putalpha(alpha(grey))
    palette = rgb.quantize(32)
    few = Image.new("RGB", (width, height), (0, 0, 0))
    few.paste((200, 30, 60), (0, 0, width // 2, height))
    deep = Image.fromarray(values.astype(np.uint16) * 257)
    files = {
        "rgb.jpg": encoded(rgb, "JPEG"),
        "grey.jpg": encoded(grey, "JPEG"),
        "cmyk.jpg": encoded(rgb.convert("CMYK"), "JPEG"),
        "progressive.jpg": encoded(rgb, "JPEG", progressive=True),
        "rgb.png": encoded(rgb, "PNG"),
        "grey.png": encoded(grey, "PNG"),
        "bits.png": encoded(rgb.convert("1"), "PNG"),
        "palette.png": encoded(palette, "PNG"),
        "palette with a clear colour.png": encoded(palette, "PNG", transparency=3),
        "palette with half clear colours.png": encoded(palette, "PNG", transparency=bytes(range(0, 256, 8))),
        "rgba.png": encoded(rgba, "PNG"),
        "la.png": encoded(la, "PNG"),
        "clear colour.png": encoded(few, "PNG", transparency=(0, 0, 0)),
        "clear grey.png": encoded(few.convert("L"), "PNG", transparency=0),
        "clear bit.png": encoded(few.convert("1"), "PNG", transparency=0),
        "16 bits.png": encoded(deep, "PNG"),
        "16 bits, clear.png": encoded(deep, "PNG", transparency=0),
        "16 bits.tif": encoded(deep, "TIFF"),
        "12 of 16 bits.png": encoded(Image.fromarray(values.astype(np.uint16) * 16), "PNG"),
        "32 bits.tif": encoded(Image.fromarray(values.astype(np.int32) * 100_000 - 5_000_000), "TIFF"),
        "8 of 32 bits.tif": encoded(Image.fromarray(values.astype(np.int32)), "TIFF"),
        "unit float.tif": encoded(Image.fromarray(values.astype(np.float32) / 255), "TIFF"),
        "float.tif": encoded(Image.fromarray(values.astype(np.float32) * 31.7 - 900), "TIFF"),
        "cmyk.tif": encoded(rgb.convert("CMYK"), "TIFF"),
        "rgba.tif": encoded(rgba, "TIFF"),
        "rgb.webp": encoded(rgb, "WEBP"),
        "rgba.webp": encoded(rgba, "WEBP", lossless=True),
        "rgb.bmp": encoded(rgb, "BMP"),
        "rgb.ppm": encoded(rgb, "PPM"),
        "rgb.jp2": encoded(rgb, "JPEG2000"),
        "moving.gif": encoded(rgb, "GIF", save_all=True, append_images=[Image.new("RGB", rgb.size)]),
        "moving.png": encoded(rgb, "PNG", save_all=True, append_images=[Image.new("RGB", rgb.size)]),
        "moving.webp": encoded(rgba, "WEBP", save_all=True, append_images=[Image.new("RGBA", rgb.size)]),
        "pages.tif": encoded(rgb, "TIFF", save_all=True, append_images=[Image.new("RGB", rgb.size)]),
        "large.jpg": encoded(photo(width * 9, height * 9, seed), "JPEG"),
        "large rgba.png": encoded(rgba.resize((width * 9, height * 9)), "PNG"),
    }
    for tag in range(2, 9):
        files[f"turned {tag}.jpg"] = encoded(photo(width * 9, height * 7, seed), "JPEG", exif=turned(tag))
        files[f"turned {tag}.tif"] = encoded(rgb, "TIFF", exif=turned(tag))
    files["turned rgba.png"] = encoded(rgba, "PNG", exif=turned(6))
    return files
