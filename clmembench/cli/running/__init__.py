"""What a command that measures needs, from its options to its progress."""
