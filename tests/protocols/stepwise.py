"""Random steps on a bench: one end of a link, one frame, one node at a time. Nothing moves between two steps, so
every order of things can come about."""

from antecast.core import NodeId
from antecast.testing import Bench
from antecast.testing.judging import order_faults
from antecast.testing.wiring import Link

SECOND = 10**9


class Stepwise:
    def __init__(self, bench: Bench, *, most_nodes: int = 6) -> None:
        self.bench, self.random = bench, bench.random
        self.most_nodes = most_nodes
        self.patience = bench.settings.patience
        self.links: list[Link] = []

    def step(self, what: str) -> None:
        bench, draw, up = self.bench, self.random, sorted(self.bench.nodes)
        match what:
            case "broadcast" if up:
                bench.broadcast(draw.choice(up))
            case "open" if len(up) + len(bench.saved) > 1:
                self.open(*draw.sample(sorted(bench.nodes.keys() | bench.saved.keys()), 2))
            case "up" | "down" if self.links:
                link = draw.choice(self.links[-12:])
                getattr(bench, what)(draw.choice(link.ends), link)
            case "frame":
                self.let_one_arrive()
            case "lose" if bench.flying:
                bench.drop(draw.choice(bench.flying).__eq__)
            case "flow":
                bench.transfer()
            case "wait":
                self.wait(draw.choice([self.patience // 10, self.patience // 2, 2 * self.patience]))
            case "crash" if len(up) > 1:  # the others notice when they do, or with the next link
                bench.crash(draw.choice(up), notice=lambda: draw.choice([0, self.patience, 5 * self.patience]))
            case "recover" if bench.saved:
                bench.recover(draw.choice(sorted(bench.saved)))
            case "join" if len(up) + len(bench.saved) < self.most_nodes:
                bench.start(max(bench.nodes.keys() | bench.saved.keys()) + 1)

    def open(self, a: NodeId, b: NodeId) -> None:
        """A link that neither end has noticed yet."""
        self.links.append(self.bench.link(a, b, notice=(None, None)))

    def let_one_arrive(self) -> None:
        bench = self.bench
        ready = [each for each in bench.flying if each.link is None or not each.link.is_coming(each.to)]
        if ready:
            chosen = self.random.choice(sorted(ready))
            if bench.wiring.fifo:
                chosen = min(each for each in ready if each.link is chosen.link and each.to == chosen.to)
            bench.arrive(*bench.drop(chosen.__eq__))

    def wait(self, time: int) -> None:
        """Timers fire; frames stay where they are."""
        self.bench.pass_time(self.bench.now + time)

    def heal(self, *, complete: bool = False) -> None:
        """Everybody is up, links that are up at one end only are gone, and a tree joins all, or all are linked."""
        bench = self.bench
        for node in sorted(bench.saved):
            bench.recover(node)
        for link in self.links:
            if len(link.up) < 2:
                for node in link.ends:
                    bench.down(node, link)
        nodes = sorted(bench.nodes)
        for index, node in enumerate(nodes):
            for peer in nodes[:index] if complete else self.random.sample(nodes[:index], min(1, index)):
                if bench.links[node].get(peer) is None or bench.links[node][peer] is not bench.links[peer].get(
                    node
                ):
                    bench.link(node, peer)

    def rest(self) -> None:
        """Nothing happens for long enough: a few times patience, for each hop."""
        for _ in range(4 * len(self.bench.nodes)):
            self.bench.transfer()
            self.wait(self.patience)
        self.bench.transfer()

    def assert_order(self, *, fifo: bool, causal: bool) -> None:
        assert not list(order_faults(self.bench.log, fifo=fifo, causal=causal))

    def everyone_reaches_everyone(self, *, at_once: bool) -> None:
        bench = self.bench
        for node in sorted(bench.nodes):
            name = bench.broadcast(node)
            if at_once:
                bench.transfer()
            else:
                self.rest()
            lacking = [each for each in bench.nodes if name not in bench.delivered[each]]
            assert not lacking, f"nodes {lacking} do not deliver {name}"
