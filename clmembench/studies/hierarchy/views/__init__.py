"""The memory hierarchy as text, drawing, tables, figures and JSON."""
