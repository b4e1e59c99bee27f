"""The command line: `clmembench COMMAND`. `program` registers every command; each, or group of commands, has a module."""
