"""Mobility from a timetable: a GTFS feed and a day become trajectories.

Read in this order: `feed` (tables of text), `calendar`, `routes` and `network` (what does not depend on the day),
`timetable` (who stops where and when), `projection` and `paths` (the way there), `vehicles` (who drives),
`pieces` (movement), `mobility` (all of it).
"""

from antecast.traces.gtfs.calendar import Span, parse_clock, parse_date
from antecast.traces.gtfs.mobility import GtfsSettings, Mobility, gtfs_mobility, service_days

__all__ = ["GtfsSettings", "Mobility", "Span", "gtfs_mobility", "parse_clock", "parse_date", "service_days"]
