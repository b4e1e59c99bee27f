"""Each level put together from its parts, and the hierarchy as a whole."""
