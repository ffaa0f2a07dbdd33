"""`python -m antecast`: the command line."""

from antecast.cli import main

main()
