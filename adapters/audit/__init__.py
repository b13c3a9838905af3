"""Where the audit trail is kept: append-only, exactly once, durable."""
