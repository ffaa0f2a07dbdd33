"""Generators of movement, for when there is no data: a seed makes the same bytes on every machine."""

from antecast.sim.mobility.city_bus import CityBus, city_bus
from antecast.sim.mobility.pedestrians import Pedestrians, pedestrians

__all__ = ["CityBus", "Pedestrians", "city_bus", "pedestrians"]
