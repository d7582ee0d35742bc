"""What can be asked of an index, by examples that come from it: its own captions, or words that fit its pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from vsekit.search.query import Query
from vsekit.search.searcher import Answer, Ask, Searcher

COUNT = 6
STEP = 16  # phrases tried at once
CAPTIONS = 400  # looked at
LONGEST = 60  # characters
COMMON = frozenset({"a", "an", "and", "at", "by", "for", "from", "in", "is", "of", "on", "the", "to", "with", "two"})

#: What photographs often show. They are tried on an index without captions, and those that find nothing are not shown.
PHRASES = (
    """
a dog running on grass, a cat on a sofa, a horse in a field, birds in the sky, a bird on a branch, cows in a meadow,
a butterfly on a flower, a fish under water, an elephant, a child playing, a smiling woman, a man with a beard,
a group of friends, a baby, a crowd of people, people dancing, a couple holding hands, a birthday cake, a wedding,
a plate of food, a cup of coffee, fruit on a table, a glass of wine, a pizza, a bowl of soup, vegetables at a market,
a beach, waves on the sea, a sailing boat, a ship in the harbour, a river in a forest, a waterfall, a lake,
snow on mountains, a mountain landscape, a desert, clouds in the sky, a sunset, stars at night, the moon, a rainbow,
fog in the morning, a tree in autumn, a forest path, flowers in a garden, a red flower, a meadow in spring,
a field of wheat, rain on a window, snow in the city, a street at night, a busy street, skyscrapers, an old church,
a castle, a bridge over water, a narrow alley, a wooden house, a ruin, a statue, a tower, a market square,
a shop window, graffiti on a wall, a staircase, a window with curtains, a door, a living room, a kitchen, a bedroom,
an office desk, books on a shelf, a computer screen, a page of text, a map, a chart, a screenshot, a receipt,
a drawing, a painting, a poster, a logo, a pattern, a car on the road, a motorcycle, a bicycle, a train at a station,
a bus, an airplane in the sky, a tractor, a truck, a person riding a bike, a runner, a football match, a swimmer,
a skier, a surfer on a wave, a climber on a rock, a skateboarder, a tennis player, a concert,
a musician with a guitar, a piano, a campfire, fireworks, a tent, a hiker with a backpack, a fisherman, a farmer,
a worker with a helmet, a soldier, a rocket, a satellite, a microscope picture, an X-ray, buildings from above,
fields from above, a river from above, a harbour from above, an airport, a parking lot, a swimming pool,
a tennis court, a stadium, a bridge from above, green trees, bare land, an industrial area, a red shape,
a blue circle, a black and white photograph, a close-up of an eye, hands, shoes, a hat, a toy, a clock, a lamp,
a ball, a chair
""".replace("\n", " ")
    .strip()
    .split(", ")
)


def examples(searcher: Searcher, count: int = COUNT) -> Iterator[list[str]]:
    """At most so many sentences to search with, each with another picture as its best answer: none where none fit.

    Made step by step, the last one whole, so that whoever shares the encoder with others can let them in between.
    """
    captions = _captions(searcher)
    if len(captions) >= count:
        yield _different([(text, text) for text in captions], count)
        return
    fitting: list[tuple[float, str, str]] = []
    for start in range(0, len(PHRASES), STEP):
        phrases = PHRASES[start : start + STEP]
        answers = searcher.search_many([Ask(Query.of("text", phrase), top=1) for phrase in phrases])
        for phrase, answer in zip(phrases, answers):
            if isinstance(answer, Answer) and answer.hits and answer.hits[0].match in ("strong", "likely"):
                best = answer.hits[0]
                fitting.append((-(best.standing or 0.0), phrase, best.item.id))
        yield _different([(phrase, id) for _, phrase, id in sorted(fitting)], count)


def _captions(searcher: Searcher) -> list[str]:
    """Short ones, of different pictures. Ids are as good as random, so the first are of all kinds."""
    found: dict[str, str] = {}
    hidden = searcher.hiding.ids(None)
    for item in islice(searcher.store.all_items("caption"), CAPTIONS):
        if item.picture in hidden:
            continue
        text = " ".join(item.text.split()).rstrip(" .")
        if len(text) <= LONGEST and 3 <= len(text.split()) <= 10 and not re.search(r'["“”]', text):
            found.setdefault(item.picture, text)
    return sorted(found.values(), key=len)[: max(40, len(found) // 2)]


def _different(candidates: Sequence[tuple[str, str]], count: int) -> list[str]:
    """The first sentences that share neither what they find nor a telling word."""
    chosen: list[str] = []
    found: set[str] = set()
    words: set[str] = set()
    for text, best in candidates:
        own = set(re.findall(r"\w+", text.lower())) - COMMON
        if best not in found and not own & words and len(chosen) < count:
            chosen.append(text)
            found.add(best)
            words |= own
    return chosen
