"""The working directory → a manifest, a preview, one tar stream."""
