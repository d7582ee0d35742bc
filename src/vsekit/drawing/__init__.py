"""What pages are drawn with: charts as SVG, and the pieces of an HTML page. Knows nothing of what is shown."""
