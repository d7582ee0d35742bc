"""What frozen encoders make of pictures and sentences: computed once, kept, and read like the pictures themselves."""
