"""Many log files → one stream of lines: ranks, filters, collapse; and the terminal filter."""
