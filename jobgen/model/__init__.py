"""The values that travel: forms where YAML comes in, frozen dataclasses inside."""
