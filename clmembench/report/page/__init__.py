"""Pages: a report as one HTML file, Markdown or LaTeX."""
