"""Models for use elsewhere: ONNX graphs with a runtime that needs no torch, sentence-transformers, and plain embeddings."""
