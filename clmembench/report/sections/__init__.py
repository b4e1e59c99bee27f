"""Sections of a summary or a page: titled tables."""
