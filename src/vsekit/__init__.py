"""vsekit: visual-semantic embeddings. Train on image–caption pairs, measure as the papers do, search with words."""

__version__ = "0.1.0"
