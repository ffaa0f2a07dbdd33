"""What comes in from outside: mobility, timetables, contacts. Readers, writers, generators."""
