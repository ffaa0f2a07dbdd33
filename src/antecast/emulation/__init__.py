"""Emulation: a scenario on real processes and real connections, in scaled time.

The simulator runs the scenario first. Its log is the *timetable*: who broadcasts when, which links come and go,
who crashes, comes back, joins and leaves. Then every node is an operating-system process on loopback that does the
same, with connections that are opened and cut as the timetable says and processes that are killed. The event logs
of both runs are judged and compared.
"""
