"""What all pages are drawn with: HTML elements, one style sheet, SVG graphs, lines and histograms."""
