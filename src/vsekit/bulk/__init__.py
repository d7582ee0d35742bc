"""Long work in blocks: what a block is, and Ray, which spreads blocks over the processes of one machine or many."""
