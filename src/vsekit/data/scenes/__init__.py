"""The generated sample collection: pictures of coloured shapes with five captions each, drawn without any asset.

`world` says what is in a scene and what is true of it, `words` captions it, `draw` and `grounds` paint it, `write` puts
a collection on disk.
"""

from vsekit.data.scenes.draw import draw
from vsekit.data.scenes.words import captions
from vsekit.data.scenes.world import HELD_OUT, Scene, combinations, holds, scenes
from vsekit.data.scenes.write import write_scenes

__all__ = ["HELD_OUT", "Scene", "captions", "combinations", "draw", "holds", "scenes", "write_scenes"]
