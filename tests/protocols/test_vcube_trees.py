"""Clusters, trees and heights: the closed forms against the definitions they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.papers.vcube import algorithm2
from antecast.protocols.vcube import cube
from antecast.protocols.vcube.view import View


@pytest.mark.parametrize("dimension", range(1, 7))
def test_clusters_are_those_of_the_recursive_definition(dimension):
    for i in range(2**dimension):
        for s in range(1, dimension + 1):
            by_definition = algorithm2.cluster(i, s)
            assert cube.members(i, s) == by_definition
            assert cube.first(i, s) == by_definition[0]
            assert all(cube.cluster(i, j) == s for j in by_definition)


@pytest.mark.parametrize("dimension", range(1, 7))
def test_children_and_heights_are_those_of_algorithm_1(dimension):
    for i in range(2**dimension):
        for r in range(2**dimension):
            height = cube.height(i, r, dimension)
            assert cube.children(i, height) == algorithm2.children(i, r, dimension)
            for child in cube.children(i, height):
                assert cube.height(child, r, dimension) == cube.cluster(child, i) - 1


def view_of(node, others):
    view = View(node)
    for other in others:
        view.link(other)
    return view


def first_by_definition(alive, i, s):
    return next((j for j in algorithm2.cluster(i, s) if j in alive), None)


groups = st.sets(st.integers(0, 31), min_size=1, max_size=20)


@given(groups, st.data())
def test_the_first_usable_node_is_found_without_a_scan(alive, data):
    node = data.draw(st.sampled_from(sorted(alive)))
    view = view_of(node, alive - {node})
    for i in range(32):
        for s in range(1, 6):
            assert view.first(i, s) == first_by_definition(alive, i, s)


@given(groups)
def test_every_root_s_tree_reaches_every_node_once_whoever_is_missing(alive):
    views = {node: view_of(node, alive - {node}) for node in alive}
    for root in alive:
        parents, front = {root: None}, [(root, views[root].dimension)]
        while front:
            node, height = front.pop()
            assert node == root or height == cube.cluster(node, parents[node]) - 1
            # What a node works out for itself about another's tree is where it really stands in it.
            assert node == root or views[node].height(root) == height
            for s, child in enumerate(views[node].children[:height], start=1):
                if child is not None:
                    assert child not in parents
                    parents[child] = node
                    front.append((child, s - 1))
        assert parents.keys() == alive


@given(groups, st.data())
def test_a_view_follows_links_and_doubts(alive, data):
    node = data.draw(st.sampled_from(sorted(alive)))
    view = view_of(node, alive - {node})
    for change in data.draw(st.lists(st.tuples(st.sampled_from("ludt"), st.integers(0, 31)), max_size=12)):
        kind, peer = change
        if peer == node:
            continue
        {"l": view.link, "u": view.unlink, "d": view.doubt, "t": view.trust}[kind](peer)
        _ = view.children, view.height(0)
        usable = {peer for peer in range(32) if view.usable(peer)} | {node}
        assert usable == (view.linked - view.doubted) | {node}
        for s, child in enumerate(view.children, start=1):
            assert child == first_by_definition(usable - {node}, node, s)
            tested = view.candidates(s)
            linked = [peer for peer in algorithm2.cluster(node, s) if peer in view.linked]
            assert tested == (linked if child is None else linked[: linked.index(child) + 1])
        assert view.root() == min(usable)


def test_one_node_and_two():
    assert view_of(0, []).children == [] and view_of(0, []).root() == 0
    assert view_of(5, []).children == [None, None, None]
    assert view_of(5, [2]).children == [None, None, 2]
    assert view_of(2, [5]).children == [None, None, 5]
    assert view_of(2, [5]).height(5) == 2
