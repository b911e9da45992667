"""What the verbs print: values in, text out."""
