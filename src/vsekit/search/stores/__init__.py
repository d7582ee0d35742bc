"""Where an index lives: embedded in a folder, in PostgreSQL, or in Milvus; one interface."""
