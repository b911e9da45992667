"""The user's working directory → what is sent, what is not and why, and one tar stream.

``scan`` decides (nothing is read but names, sizes and ignore files), ``build_payload`` streams.
"""

from jobgen.upload.ignore import Rules
from jobgen.upload.manifest import Entry, Ignored, Manifest
from jobgen.upload.tar_stream import MANIFEST, SOURCE, TarStream, build_payload
from jobgen.upload.walk import scan

__all__ = [
    "MANIFEST",
    "SOURCE",
    "Entry",
    "Ignored",
    "Manifest",
    "Rules",
    "TarStream",
    "build_payload",
    "scan",
]
