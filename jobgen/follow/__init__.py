"""Many log files → one stream of lines. Pure: bytes and clock readings come in."""
