"""The values that travel: forms where YAML comes in, named tuples inside."""
