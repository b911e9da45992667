"""The sizes of transformers, exact to the parameter."""
