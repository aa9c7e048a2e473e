"""Keys tell content apart position by position; the tree finds the longest usable prefix and forgets in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.prefix_key import Key, common_length, extended, prefix_key
from engine.prefix_tree import Entry, Node, PrefixTree
from engine.prompt import MediaItem

PAD = 9


def item(key: str, *slots: tuple[int, int], kind: str = "image") -> MediaItem:
    return MediaItem(key, kind, slots, np.zeros((1, 1), np.float32), (1, 1, 1), at_once=1)  # type: ignore[arg-type]


def add(tree: PrefixTree, ids: list[int], state: bool = False, size: int = 1) -> Node:
    """Store ids as one run after what is there already."""
    key = prefix_key(ids)
    parent = tree.deepest(key)
    node = parent
    if parent.end < len(key):
        node = Node(key[parent.end :], parent.end, parent)
        node.attention = Entry(None, size)
        tree.attach(node)
    if state:
        tree.add_state(node, Entry(None, size))
    tree.touch(node, state=True)
    return node


def test_text_keys_agree_as_far_as_the_words_do() -> None:
    one, other = prefix_key([1, 2, 3, 4]), prefix_key([1, 2, 7, 4])
    assert common_length(one, other) == 2
    assert common_length(one, one[:3]) == 3
    assert common_length(one, prefix_key([])) == 0
    assert (extended(one, [5]) == prefix_key([1, 2, 3, 4, 5])).all()


def test_same_words_with_another_picture_agree_exactly_up_to_it() -> None:
    ids = [1, 2, *[PAD] * 6, 3]
    one, other = prefix_key(ids, [item("aa", (2, 6))]), prefix_key(ids, [item("ab", (2, 6))])
    assert common_length(one, other) == 2
    assert common_length(one, prefix_key(ids, [item("aa", (2, 6))])) == 9
    assert common_length(one, prefix_key(ids, [item("aa", (2, 6), kind="video")])) == 2


def test_a_media_position_is_no_text_token_and_no_other_place_of_the_same_picture() -> None:
    ids = [PAD] * 4
    key = prefix_key(ids, [item("aa", (0, 4))])
    assert len(np.unique(key, axis=0)) == 4
    assert common_length(key, prefix_key(ids)) == 0
    # The second half of a clip is not its first half.
    halves = prefix_key([PAD, 1, PAD], [item("aa", (0, 1), (2, 1))])
    assert (halves[0] != halves[2]).any()


def test_media_keys_hold_well_over_96_bits() -> None:
    keys = [prefix_key([PAD], [item(str(number), (0, 1))])[0] for number in range(400)]
    bits = np.unpackbits(np.array(keys).view(np.uint8), axis=1)
    varying = (bits.mean(axis=0) > 0.3) & (bits.mean(axis=0) < 0.7)
    assert varying.sum() == 127


@pytest.mark.parametrize("stateful", [False, True])
def test_the_longest_usable_prefix_wins(stateful: bool) -> None:
    tree = PrefixTree(stateful)
    add(tree, [1, 2], state=True)
    add(tree, [1, 2, 3, 4, 5], state=True)
    add(tree, [1, 2, 3, 4, 6, 7], state=False)
    match = tree.find(prefix_key([1, 2, 3, 4, 6, 8]))
    assert match is not None
    assert match.length == (2 if stateful else 5)
    match = tree.find(prefix_key([1, 2, 3, 4, 5, 9]))
    assert match is not None
    assert match.length == 5
    assert tree.find(prefix_key([2, 1])) is None
    assert tree.find(prefix_key([])) is None


def test_a_shorter_prefix_of_a_run_is_used_where_layers_can_be_cut() -> None:
    tree = PrefixTree(stateful=False)
    node = add(tree, [1, 2, 3, 4])
    match = tree.find(prefix_key([1, 2, 9]))
    assert match is not None
    assert (match.node, match.length) == (node, 2)
    assert tree.covers(tree.root, prefix_key([1, 2]))
    assert not tree.covers(tree.root, prefix_key([1, 9]))


def test_branches_count_as_conversations_and_share_what_they_have_in_common() -> None:
    tree = PrefixTree(stateful=False)
    add(tree, [1, 2])
    assert tree.leaves == 1
    add(tree, [1, 2, 3])
    assert (tree.leaves, tree.nbytes) == (1, 2)
    add(tree, [1, 2, 4])
    assert (tree.leaves, tree.nbytes) == (2, 3)
    add(tree, [5])
    assert tree.leaves == 3


def test_leaves_go_before_what_they_continue_and_passed_states_before_both() -> None:
    tree = PrefixTree(stateful=True)
    add(tree, [1], state=True)
    add(tree, [1, 2], state=True)
    last = add(tree, [1, 2, 3], state=True)
    add(tree, [7], state=True)
    order = []
    while (found := next(tree.oldest(()), None)) is not None:
        node, entry = found
        order.append((node.start, entry is node.state))
        tree.drop(node, entry, ())
    assert order[:2] == [(0, True), (1, True)]
    assert order[2] == (2, False)  # with it go the runs before it, from which nothing could go on
    assert (tree.nbytes, tree.leaves, last.parent.children) == (0, 0, {})


def test_kept_nodes_stay_with_their_ancestors() -> None:
    tree = PrefixTree(stateful=False)
    add(tree, [1])
    pinned = add(tree, [1, 2])
    add(tree, [1, 3])
    keep = set(pinned.path)
    for node, entry in tree.oldest(keep):
        tree.drop(node, entry, keep)
    match = tree.find(prefix_key([1, 2, 3]))
    assert match is not None
    assert (match.length, tree.leaves, tree.nbytes) == (2, 1, 2)


@given(st.data())
def test_find_equals_a_scan_of_everything_stored(data: st.DataObject) -> None:
    ids = st.lists(st.integers(0, 2), min_size=1, max_size=8)
    stateful = data.draw(st.booleans())
    tree = PrefixTree(stateful)
    stored = data.draw(st.lists(ids, max_size=8))
    for one in stored:
        add(tree, one, state=stateful)
    asked: Key = prefix_key(data.draw(ids))
    lengths = [common_length(prefix_key(one), asked) for one in stored]
    if stateful:
        lengths = [n for n, one in zip(lengths, stored, strict=True) if n == len(one)]
    match = tree.find(asked)
    assert (match.length if match else 0) == max(lengths, default=0)


@given(st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.booleans()), max_size=12))
def test_counts_hold_through_storing_and_forgetting(steps: list[tuple[list[int], bool]]) -> None:
    tree = PrefixTree(stateful=True)
    for ids, forget in steps:
        if forget and (oldest := next(tree.oldest(()), None)) is not None:
            tree.drop(*oldest, ())
        elif tree.deepest(prefix_key(ids)).state is None:
            add(tree, ids, state=True)
        nodes, leaves, entries = [tree.root], 0, 0
        while nodes:
            node = nodes.pop()
            entries += (node.attention is not None) + (node.state is not None)
            below = [child for group in node.children.values() for child in group]
            leaves += not below and node is not tree.root
            assert below or node.state is not None or node is tree.root
            nodes += below
        assert (tree.leaves, tree.nbytes) == (leaves, entries)
