from dataclasses import dataclass
@dataclass
class Options: pass
def check(): pass
