"""`vse demo`: the whole story on a generated sample."""
