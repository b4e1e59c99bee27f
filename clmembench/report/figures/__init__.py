"""Figures of a page as inline SVG."""
