"""What a job looks at on every node before its program starts."""
