"""Records to values: pure functions over what was measured."""
