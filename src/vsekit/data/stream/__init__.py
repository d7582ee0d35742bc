"""Collections too large to be read first: shards from disk or from any fsspec address, sample by sample, as they come.

addresses   what `--data` names: a list of shards, from a pattern
fetching    the bytes of a shard, read ahead; a failure is tried again, and silence ends
tar         the samples of a shard, and what in it can't be used
reading     a shard from any sample on, whatever fails in between
"""
