"""Search: pictures and captions in a store, asked in words or with a picture."""
