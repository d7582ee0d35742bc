"""The papers' diagnostics, one a file: a pure function that gives JSON-able data, and one that draws it as HTML."""
