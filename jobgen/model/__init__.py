"""The values that travel: pydantic where YAML comes in, frozen dataclasses inside."""
