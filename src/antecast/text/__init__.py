"""Words for people: numbers, times and sizes as they are read and written, and what is wrong with a setting.

Every package may use them; they use none.
"""
