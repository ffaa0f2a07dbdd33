"""Readers of logs that other systems write, one small module per format.

A module that has `NAME`, `MODEL`, `recognises` and `read` is an importer (`registry.Importer`); nothing else must
be done to add one. Everything it reads comes through `source`, which opens files, keeps the file and the line of
every record, and says what is wrong with a file in one line.
"""
