"""What the papers got wrong or left open, as stories that anyone can play.

    from antecast.demonstrations import demonstrations
    for each in demonstrations():
        print(each.name, each.play().as_claimed)

Each is played twice, by the rule as printed and by the one that took its place here, with the real protocols and
judged by the auditor wherever causal order is at stake. `antecast demonstrate` shows them; the page in the docs is
made from them (`page`).
"""

from antecast.demonstrations.demonstration import Demonstration, Outcome, Played
from antecast.demonstrations.page import as_markdown, demonstrations

__all__ = ["Demonstration", "Outcome", "Played", "as_markdown", "demonstrations"]
