"""The demonstration: a real training job, real faults, and the story told in a terminal. Nothing else imports it."""
