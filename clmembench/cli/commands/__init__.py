"""Commands of the core, a module each."""
