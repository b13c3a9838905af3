"""Known failures as data: what a log line says about a failure, and the scan that finds such lines.

One family a file in `families/`; a row is data and carries its own example, which is a test.
"""

from rerail.signatures.catalogue import ALL, by_id
from rerail.signatures.hit import Hit
from rerail.signatures.scanner import Scanner, loudest, named, scan, scan_stream
from rerail.signatures.signature import Scope, Signature
from rerail.signatures.site import load_site_rows

__all__ = ["ALL", "Hit", "Scanner", "Scope", "Signature", "by_id", "load_site_rows", "loudest", "named", "scan", "scan_stream"]
