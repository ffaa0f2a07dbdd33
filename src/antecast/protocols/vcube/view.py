"""A node's view of the cube: which nodes can be used, and the trees this makes.

A view knows two things about another node: whether there is a link to it (`linked`), and whether it is taken to
have failed (`doubted`). A node is *usable* if it is linked and not doubted. Numbers that no node has, nodes that
crashed and nodes cut off are all the same to a tree: the first usable node of a cluster takes the place of the
first one. It covers what that node would have: all nodes of the cluster share the bits that count. So trees exist
for any number of nodes, and with any of them missing; a place that was left for good is one more number that no
node has.

Heights in other nodes' trees are then found by walking down from the root; while every number below 2^d is
usable, the closed form is used instead. Results are remembered until the view changes.
"""

from bisect import bisect_left

from antecast.core import MAX_SOURCES, NodeId
from antecast.protocols.vcube import cube


class View:
    __slots__ = (
        "_candidates", "_children", "_heights", "_usable_ids", "dimension", "doubted", "linked", "node",
    )  # fmt: skip

    def __init__(self, node: NodeId) -> None:
        self.node = node
        self.dimension = node.bit_length()
        """Clusters that hold any node ever linked."""
        self.linked: set[NodeId] = set()
        self.doubted: set[NodeId] = set()
        self._changed()

    def _changed(self) -> None:
        self._candidates: dict[int, list[NodeId]] = {}
        self._children: list[NodeId | None] | None = None
        self._heights: dict[NodeId, int] | None = None
        self._usable_ids: list[NodeId] | None = None

    def link(self, peer: NodeId) -> None:
        self.linked.add(peer)
        if peer >> self.dimension:
            self.dimension = peer.bit_length()
        if self._children is not None or self._heights is not None or self._usable_ids is not None:
            self._changed()

    def unlink(self, peer: NodeId) -> None:
        self.linked.discard(peer)
        self._changed()

    def doubt(self, peer: NodeId) -> None:
        self.doubted.add(peer)
        self._changed()

    def trust(self, peer: NodeId) -> None:
        self.doubted.discard(peer)
        self._changed()

    def usable(self, peer: NodeId) -> bool:
        return peer in self.linked and peer not in self.doubted

    @property
    def children(self) -> list[NodeId | None]:
        """The first usable node of each cluster, from cluster 1 on; None where there is none."""
        if self._children is None:
            self._children = [self.first(self.node, s) for s in range(1, self.dimension + 1)]
        return self._children

    def first(self, node: NodeId, s: int) -> NodeId | None:
        """The first usable node of a cluster of any node, this one included, by descent in the binary order."""
        wanted = cube.first(node, s)
        if wanted == self.node or self.usable(wanted):
            return wanted
        ids = self._usable()
        low = wanted >> (s - 1) << (s - 1)
        left, right = bisect_left(ids, low), bisect_left(ids, low + (1 << (s - 1)))
        bit = s - 2
        while right - left > 1:
            upper = low + (1 << bit)
            split = bisect_left(ids, upper, left, right)
            if split == left or (split < right and wanted >> bit & 1):
                low, left = upper, split
            else:
                right = split
            bit -= 1
        return ids[left] if left < right else None

    def height(self, root: NodeId) -> int:
        """The height of this node's subtree in the tree of a root, as far as this node can tell."""
        if self._heights is None or len(self._heights) > MAX_SOURCES:  # a stamp may name sources that do not exist
            self._heights = {}
        found = self._heights.get(root)
        if found is None:
            found = self._heights[root] = self._find_height(root)
        return found

    def _find_height(self, root: NodeId) -> int:
        if not self.doubted and len(self.linked) + 1 == 1 << self.dimension:
            return cube.height(self.node, root, self.dimension)
        at, height = root, self.dimension
        while at != self.node:
            s = cube.cluster(at, self.node)
            below = self.first(at, s)
            assert below is not None  # this node itself is in the cluster
            at, height = below, s - 1
        return height

    def root(self) -> NodeId:
        """The usable node with the smallest number: the root of the single tree."""
        return self._usable()[0]

    def roots(self) -> list[NodeId]:
        """The nodes that may take themselves for the root of the single tree: all up to the first usable one."""
        root = self.root()
        return sorted(peer for peer in self.linked if peer <= root) if self.doubted else [root]

    def _usable(self) -> list[NodeId]:
        """The nodes that can be used, this one included, by number."""
        if self._usable_ids is None:
            self._usable_ids = sorted((self.linked - self.doubted) | {self.node})
        return self._usable_ids

    def candidates(self, s: int) -> list[NodeId]:
        """The linked nodes of cluster s of this node in their order, up to the first that can be used."""
        found = self._candidates.get(s)
        if found is None:
            found = self._candidates[s] = self._find_candidates(s)
        return found

    def _find_candidates(self, s: int) -> list[NodeId]:
        wanted, child = cube.first(self.node, s), self.children[s - 1]
        if child == wanted:
            return [wanted]
        last = 1 << (s - 1) if child is None else (child ^ wanted) + 1
        found = [peer for peer in self.linked if peer ^ wanted < last]
        return sorted(found, key=lambda peer: peer ^ wanted)
