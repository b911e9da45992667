"""What machines say of themselves: the commands that ask, and their answers as values. No IO."""
