"""Where the logs of jobs lie."""
