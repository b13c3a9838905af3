"""The rows, one family a file: each file exports ROWS."""
