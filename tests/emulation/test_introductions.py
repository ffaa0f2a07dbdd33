"""Members of an emulated overlay can find each other, in whatever order their processes begin and end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from antecast.emulation.introductions import Introductions


class Process:
    def __init__(self) -> None:
        self.port: int | None = None
        self.dead = False
        self.contacts: list[int] = []

    def tell(self, verb: str, port: int) -> None:
        assert verb == "meet"
        if not self.dead:
            self.contacts.append(port)


def parts(processes: list[Process]) -> int:
    """Into how many parts those that run fall, joined by the contacts they know."""
    left = {each.port: each for each in processes if each.port is not None and not each.dead}
    found = 0
    while left:
        found += 1
        todo = [left.popitem()[1]]
        while todo:
            one = todo.pop()
            near = [port for port, other in left.items() if port in one.contacts or one.port in other.contacts]
            todo += [left.pop(port) for port in near]
    return found


def test_one_that_listens_before_all_others_is_found_by_them():
    introductions, processes = Introductions(), [Process() for _ in range(3)]
    for each in processes:
        introductions.begun(each)
    processes[2].port = 12
    introductions.make()
    for number in (0, 1):  # both are seen at one look, and must not only be told of each other
        processes[number].port = 10 + number
    introductions.make()
    assert [each.contacts for each in processes] == [[12], [12], []]


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(["begin", "listen", "die", "look"]), st.integers(0, 9)), max_size=60))
def test_nobody_is_left_apart(steps):
    introductions, processes = Introductions(), []
    for place, (kind, choice) in enumerate(steps):
        if kind == "begin":
            processes.append(Process())
            introductions.begun(processes[-1])
        elif kind == "look":
            introductions.make()
        elif processes:
            one = processes[choice % len(processes)]
            if kind == "die":
                one.dead = True
            elif one.port is None:
                one.port = place
    introductions.make()
    assert parts(processes) <= 1
