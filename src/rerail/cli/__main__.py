"""`python -m rerail.cli`: the same command where no script is installed."""

from rerail.cli import main

main()
