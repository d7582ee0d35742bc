"""Training on a stream of shards: any size, no listing, each process its own shards, every pair exactly once an epoch.

shuffled     one process's part of the stream, and the buffer that batches are drawn from
batches      the parts of all processes put together to batches
exchange     what processes tell each other meanwhile
left_out     what can't be used, counted and named
words        the vocabulary of a stream
refused      what a stream can't give
collection   all of it, with the face of a collection in memory
"""
