"""Measuring a cluster by jobs like any other: all-reduces, and the user's own program."""
