"""Readers: from bytes that strangers wrote to small values. Who may live here: pure functions, bounded in memory and time."""
