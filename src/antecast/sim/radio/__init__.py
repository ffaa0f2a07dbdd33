"""Cells: stations joined by wires, hosts that move among them, and the air that they share."""
