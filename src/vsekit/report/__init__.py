"""Reports: one self-contained HTML file, pictures embedded, no network, readable on a phone."""
