"""What happened: the event log, readers of logs from elsewhere, happened-before, the auditor, promises, measures.

Pure functions on Arrow tables and arrays; nothing here knows how a log came about.
"""
