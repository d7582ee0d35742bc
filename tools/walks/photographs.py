"""A folder as telephones, cameras and years leave it: drawn photographs in HEIC, JPEG, PNG and WebP, turned by EXIF, copied,
shot in bursts, with places and cameras in them; screenshots and scans with text; a file that is broken, one that is no picture.

    python -m tools.walks.photographs --out Pictures
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZE = WIDTH, HEIGHT = 640, 480
Colour = tuple[int, int, int]
#: What a picture shows: drawn from a seed, so that two of one seed are the same and two of neighbours nearly.
Scene = Callable[[random.Random], Image.Image]


def blend(top: Colour, bottom: Colour, height: int = HEIGHT) -> Image.Image:
    """From one colour to another, downwards."""
    share = np.linspace(0, 1, height)[:, None, None]
    rgb = (1 - share) * np.array(top) + share * np.array(bottom)
    return Image.fromarray(np.broadcast_to(rgb, (height, WIDTH, 3)).astype(np.uint8))


def rough(image: Image.Image, seed: int, strength: float = 10.0) -> Image.Image:
    """As a camera sees it: a little soft, with noise."""
    noise = np.random.default_rng(seed).normal(scale=strength, size=(HEIGHT, WIDTH, 1))
    soft = np.asarray(image.filter(ImageFilter.GaussianBlur(1.2)), dtype=float)
    return Image.fromarray(np.clip(soft + noise, 0, 255).astype(np.uint8))


def sunset(rng: random.Random) -> Image.Image:
    image = blend((70, 40, 90), (255, 150, 40))
    draw = ImageDraw.Draw(image)
    x, y = rng.randint(260, 380), 280
    draw.ellipse((x - 45, y - 45, x + 45, y + 45), fill=(255, 230, 130))
    image.paste(blend((190, 90, 40), (30, 20, 50), HEIGHT - 300), (0, 300))
    for i in range(14):
        w = 70 - 3 * i
        draw.line((x - w, 306 + 12 * i, x + w, 306 + 12 * i), fill=(255, 200, 110), width=4)
    return image


def beach(rng: random.Random) -> Image.Image:
    image = blend((70, 150, 230), (190, 225, 250))
    image.paste(blend((20, 110, 170), (90, 200, 210), 120), (0, 190))
    image.paste(blend((240, 220, 170), (215, 185, 130), 170), (0, 310))
    draw = ImageDraw.Draw(image)
    for y in (300, 306):
        draw.line([(x, y + 6 * math.sin(x / 30 + rng.random())) for x in range(0, WIDTH + 8, 8)], fill="white", width=5)
    return image


def mountains(rng: random.Random) -> Image.Image:
    image = blend((60, 120, 210), (200, 225, 245))
    draw = ImageDraw.Draw(image)
    for x, top, w in ((120, 150, 230), (340, 80, 280), (540, 170, 220)):
        x += rng.randint(-12, 12)
        draw.polygon([(x - w, HEIGHT), (x, top), (x + w, HEIGHT)], fill=(96, 100, 112))
        draw.polygon([(x - w // 4, top + 100), (x, top), (x + w // 4, top + 100), (x, top + 80)], fill=(250, 250, 255))
    image.paste(blend((245, 248, 252), (220, 230, 240), 90), (0, 390))
    return image


def meadow(rng: random.Random) -> Image.Image:
    image = blend((80, 150, 235), (200, 230, 250))
    image.paste(blend((110, 175, 70), (50, 120, 40), 220), (0, 260))
    draw = ImageDraw.Draw(image)
    for _ in range(1500):
        x, y = rng.randrange(WIDTH), rng.randrange(270, HEIGHT)
        draw.line(
            (x, y, x + rng.randint(-3, 3), y - rng.randint(6, 16)),
            fill=(rng.randint(40, 120), rng.randint(120, 190), 50),
        )
    return image


def city_at_night(rng: random.Random) -> Image.Image:
    image = blend((8, 10, 30), (40, 36, 70))
    draw = ImageDraw.Draw(image)
    for x in range(0, WIDTH, 64):
        top = rng.randint(110, 300)
        draw.rectangle((x, top, x + 56, HEIGHT), fill=(18, 18, 28))
        for wy in range(top + 10, HEIGHT - 10, 18):
            for wx in range(x + 6, x + 50, 14):
                if rng.random() < 0.55:
                    draw.rectangle((wx, wy, wx + 7, wy + 9), fill=(255, 214, 120))
    return image


def fireworks(rng: random.Random) -> Image.Image:
    image = blend((4, 4, 14), (16, 14, 34))
    draw = ImageDraw.Draw(image)
    for cx, cy, colour in ((200, 150, (255, 80, 60)), (430, 120, (255, 220, 90)), (330, 280, (120, 190, 255))):
        for i in range(48):
            a, r = i * math.tau / 48, rng.randint(60, 110)
            draw.line((cx, cy, cx + r * math.cos(a), cy + r * math.sin(a)), fill=colour, width=2)
    return image


def flower(rng: random.Random) -> Image.Image:
    image = blend((60, 110, 50), (30, 70, 30))
    draw = ImageDraw.Draw(image)
    draw.line((320, 240, 330, HEIGHT), fill=(40, 130, 40), width=14)
    for i in range(14):
        a = i * math.tau / 14 + rng.random() / 9
        x, y = 320 + 95 * math.cos(a), 200 + 95 * math.sin(a)
        draw.ellipse((x - 42, y - 42, x + 42, y + 42), fill=(250, 205, 30), outline=(220, 160, 10), width=2)
    draw.ellipse((260, 140, 380, 260), fill=(90, 50, 20))
    return image


def car(rng: random.Random) -> Image.Image:
    image = blend((170, 200, 225), (225, 230, 235))
    image.paste(blend((105, 105, 108), (70, 70, 74), 150), (0, 330))
    draw = ImageDraw.Draw(image)
    x = 310 + rng.randint(-20, 20)
    draw.polygon([(x - 110, 270), (x - 60, 200), (x + 70, 200), (x + 125, 270)], fill=(190, 25, 30))
    draw.polygon([(x - 90, 266), (x - 52, 212), (x + 0, 212), (x + 0, 266)], fill=(150, 195, 220))
    draw.polygon([(x + 12, 266), (x + 12, 212), (x + 64, 212), (x + 104, 266)], fill=(150, 195, 220))
    draw.rounded_rectangle((x - 200, 262, x + 205, 345), 26, fill=(205, 30, 35))
    for wheel in (x - 120, x + 125):
        draw.ellipse((wheel - 46, 306, wheel + 46, 398), fill=(25, 25, 25))
        draw.ellipse((wheel - 22, 330, wheel + 22, 374), fill=(190, 190, 195))
    return image


def forest(rng: random.Random) -> Image.Image:
    image = blend((150, 190, 200), (40, 60, 30))
    draw = ImageDraw.Draw(image)
    for depth in range(3):
        for _ in range(16):
            x, top, w = rng.randrange(WIDTH), rng.randint(20, 140) + 40 * depth, 34 + 16 * depth
            green = (20 + 8 * depth, 90 - 18 * depth, 36)
            draw.rectangle((x - 5, top + 200, x + 5, HEIGHT), fill=(70, 45, 25))
            for part in range(4):
                y, half = top + 55 * part, w * (part + 2) / 4
                draw.polygon([(x, y), (x - half, y + 90), (x + half, y + 90)], fill=green)
    return image


def page(lines: list[str], paper: Colour = (252, 252, 250), ink: Colour = (20, 20, 24), size: int = 26) -> Image.Image:
    image = Image.new("RGB", (720, 90 + 50 * len(lines)), paper)
    draw = ImageDraw.Draw(image)
    for i, line in enumerate(lines):
        draw.text((40, 40 + 50 * i), line, fill=ink, font=ImageFont.load_default(size))
    return image


def save(
    path: Path,
    image: Image.Image,
    taken: str | None = None,
    *,
    camera: tuple[str, str] = ("Google", "Pixel 7"),
    turned: bool = False,
    place: tuple[float, float] | None = None,
    said: str | None = None,
) -> None:
    """Saves a picture with what a camera writes into it.

    turned: the camera was held upright, so the pixels lie on their side and EXIF says so.
    """
    exif = Image.Exif()
    if taken is not None:
        exif.update({0x010F: camera[0], 0x0110: camera[1], 0x0132: taken})
        exif.get_ifd(0x8769)[0x9003] = taken
    if said is not None:
        exif[0x010E] = said
    if place is not None:
        north, east = ((int(x), int(x % 1 * 60), round(x % 1 * 60 % 1 * 60, 2)) for x in place)
        exif.get_ifd(0x8825).update({1: "N", 2: north, 3: "E", 4: east})
    if turned:
        exif[0x0112] = 6
        image = image.transpose(Image.Transpose.ROTATE_90)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, exif=exif.tobytes(), **({} if path.suffix == ".png" else {"quality": 90}))


def write(out: Path) -> None:
    import pillow_heif

    pillow_heif.register_heif_opener()

    def shot(scene: Scene, seed: int) -> Image.Image:
        return rough(scene(random.Random(seed)), seed)

    old = ("Canon", "Canon PowerShot A520")
    save(out / "2024" / "IMG_2301.HEIC", shot(beach, 1), "2024:07:14 11:02:00", place=(43.5528, 7.0174))
    save(out / "2024" / "IMG_2302.HEIC", shot(sunset, 2), "2024:07:14 20:58:00", place=(43.5528, 7.0174))
    for i in range(3):  # held too long
        save(out / "2024" / f"IMG_231{i}.jpg", shot(fireworks, 30 + i), f"2024:07:14 22:30:0{i}")
    save(out / "2024" / "IMG_2320.jpg", shot(flower, 4).crop((110, 0, 530, HEIGHT)), "2024:08:02 09:15:00", turned=True)
    save(out / "Zermatt" / "P1010017.JPG", shot(mountains, 5), "2023:02:18 10:30:00", place=(46.0207, 7.7491))
    save(out / "Zermatt" / "P1010023.webp", shot(forest, 6), "2023:02:19 15:10:00", place=(46.0207, 7.7491))
    save(out / "old camera" / "DSCF0041.JPG", shot(car, 7), "2005:05:21 16:00:00", camera=old)
    save(
        out / "old camera" / "DSCF0042.JPG",
        shot(meadow, 8),
        "2005:05:21 16:20:00",
        camera=old,
        said="Grandmother's meadow",
    )
    save(out / "downloads" / "wallpaper.png", shot(city_at_night, 9))
    copy = (out / "2024" / "IMG_2301.HEIC").read_bytes()
    (out / "downloads" / "from Anna.heic").write_bytes(copy)
    shot(sunset, 2).resize((320, 240)).save(out / "downloads" / "received.jpg", quality=60)  # as messengers send it
    save(
        out / "Screenshots" / "Screenshot_20240302.png", page(["BOARDING PASS", "Flight LX 1234  Gate B17", "Seat 14A"])
    )
    save(
        out / "Screenshots" / "Screenshot_20240411.png",
        page(["Wi-Fi settings", "Network: Harbour Guest", "Password: otter-7791"]),
    )
    save(out / "scans" / "scan0001.png", page(["INVOICE 2024-117", "Plumber Novak", "Total 348.50 EUR"]))
    save(out / "scans" / "scan0002.png", page(["Tomato soup", "2 onions, 1 kg tomatoes", "Simmer for forty minutes"]))
    (out / "2024" / "IMG_2399.jpg").write_bytes((out / "2024" / "IMG_2310.jpg").read_bytes()[:700])
    (out / "downloads" / "notes.jpg").write_text("This was never a picture.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    write(parser.parse_args().out)


if __name__ == "__main__":
    main()
