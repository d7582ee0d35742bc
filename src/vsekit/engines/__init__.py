"""Frozen encoders through ONNX Runtime: the numbers torch gives, in a fraction of its time on a CPU."""
