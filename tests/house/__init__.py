"""Tests of the house itself: its layout, its documents, its locks, and the two verbs that CI and a laptop share."""
