"""The virtual hypercube: clusters, trees and heights in closed form.

Node i sorts the others into clusters. Cluster s holds the 2^(s-1) nodes that share with i all bits from bit s
up and differ from it in bit s-1 (bits count from 0). VCube defines the cluster as a list, by recursion: the
node i xor 2^(s-1), then that node's own clusters 1 to s-1, one after the other. Written out, the p-th entry is
i xor 2^(s-1) xor p: the recursion only counts in binary. Everything else follows:

- j lies in that cluster of i whose number is the bit length of i xor j; the relation is symmetric.
- A node of height h is the root of a subtree with its clusters 1 to h: all nodes that share its bits from bit h
  up. Its children are the first nodes of these clusters, and the child in cluster s has height s-1, which is
  the child's cluster of its parent, less one.
- In the tree of r the height of i ≠ r is the number of zeros at the end of i xor r.

All of this assumes that every number below 2^d is a node that works. `view` does not.
"""

from antecast.core import NodeId


def cluster(i: NodeId, j: NodeId) -> int:
    """The number of i's cluster that holds j.

    >>> [cluster(0, j) for j in range(1, 8)]
    [1, 2, 2, 3, 3, 3, 3]
    """
    return (i ^ j).bit_length()


def first(i: NodeId, s: int) -> NodeId:
    """The first node of cluster s of i.

    >>> first(0, 1), first(1, 2), first(1, 3), first(7, 2), first(4, 1)
    (1, 3, 5, 5, 5)
    """
    return i ^ (1 << (s - 1))


def members(i: NodeId, s: int) -> list[NodeId]:
    """Cluster s of i, in its order.

    >>> members(0, 3), members(1, 3)
    ([4, 5, 6, 7], [5, 4, 7, 6])
    """
    return [first(i, s) ^ p for p in range(1 << (s - 1))]


def children(i: NodeId, height: int) -> list[NodeId]:
    """The children of a node that is the root of a subtree of this height.

    >>> children(0, 3), children(4, 2), children(6, 1), children(7, 0)
    ([1, 2, 4], [5, 6], [7], [])
    """
    return [i ^ (1 << s) for s in range(height)]


def height(i: NodeId, root: NodeId, dimension: int) -> int:
    """The height of i's subtree in the tree of a root.

    >>> height(4, 2, 3), height(2, 2, 3), height(5, 0, 3)
    (1, 3, 0)
    """
    apart = i ^ root
    return (apart & -apart).bit_length() - 1 if apart else dimension
