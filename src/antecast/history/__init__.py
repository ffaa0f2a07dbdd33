"""What happened: the event log, happened-before, checks of order, and metrics.

Pure functions on Arrow tables and arrays; nothing here knows how a log came about.
"""
