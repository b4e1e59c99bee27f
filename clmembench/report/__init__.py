"""Runs to what people read: rows, a summary, figures, HTML and Markdown."""
