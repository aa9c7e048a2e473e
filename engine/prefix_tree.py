"""Stored prefixes as a tree of runs: branches of a conversation share what they have in common; plain Python.

A run is at most ``RUN`` positions and never changes, so that it can be written to disk and dropped as a whole. Where a
new branch leaves a run midway it starts a sibling that repeats the few positions they share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from engine.prefix_key import Key, common_length, prefix_key

RUN = 512


def child_id(parent_id: str, run: Key) -> str:
    """128 bits in hex that stand for a run and everything before it."""
    return blake2b(parent_id.encode() + run.tobytes(), digest_size=16).hexdigest()


@dataclass(slots=True, eq=False)
class Entry:
    """Arrays of one kind that a node holds: its run's attention, or the state at its end.

    It does not know its node: arrays in a cycle of references would outlive what was dropped.

    Attributes:
        data: the arrays, or where they are.
        nbytes: what it counts for.
        offered: it was queued for the cold tier.
    """

    data: Any
    nbytes: int
    offered: bool = False


@dataclass(slots=True, eq=False)
class Node:
    """One run of positions after its parent's.

    Attributes:
        run: its keys.
        start: position of the first one.
        attention: keys and values of the run.
        id: stands for all keys up to its end; set when the node is attached.
        state: what the layers without positions held at its end, if that was stored and is still kept.
    """

    run: Key
    start: int = 0
    parent: Node | None = None
    attention: Entry | None = None
    state: Entry | None = None
    id: str = ""
    children: dict[bytes, list[Node]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Position after its last one."""
        return self.start + len(self.run)

    @property
    def path(self) -> list[Node]:
        """Nodes from the first run to this one."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def following(self, key: Key) -> list[Node]:
        """Children that share at least one position with what comes after this node in ``key``."""
        return self.children.get(key[self.end].tobytes(), []) if self.end < len(key) else []


@dataclass(frozen=True, slots=True)
class Match:
    """The longest usable prefix: ``length`` positions, the last of them in ``node``."""

    node: Node
    length: int


class PrefixTree:
    """Nodes, and their entries from least to most recently used.

    Args:
        stateful: the model has layers that resume only where their state was stored.
    """

    def __init__(self, stateful: bool) -> None:
        self.root = Node(prefix_key(()))
        self.stateful = stateful
        self.nbytes = 0
        self.leaves = 0
        self._entries: OrderedDict[Entry, Node] = OrderedDict()

    def find(self, key: Key) -> Match | None:
        """The longest prefix of ``key`` from which a row can go on."""
        best: Match | None = None
        open_nodes = [self.root]
        while open_nodes:
            node = open_nodes.pop()
            for child in node.following(key):
                shared = common_length(child.run, key[child.start :])
                whole = shared == len(child.run)
                if whole:
                    open_nodes.append(child)
                usable = (whole and child.state is not None) if self.stateful else True
                if usable and (best is None or child.start + shared > best.length):
                    best = Match(child, child.start + shared)
        return best

    def deepest(self, key: Key) -> Node:
        """The node up to which ``key`` is stored in whole runs; the root if nothing is."""
        found, open_nodes = self.root, [self.root]
        while open_nodes:
            node = open_nodes.pop()
            if node.end > found.end:
                found = node
            open_nodes += [c for c in node.following(key) if common_length(c.run, key[c.start :]) == len(c.run)]
        return found

    def covers(self, node: Node, key: Key) -> bool:
        """Whether some run after ``node`` begins with all that is left of ``key``."""
        left = len(key) - node.end
        return not left or any(common_length(child.run, key[node.end :]) == left for child in node.following(key))

    def attach(self, node: Node) -> None:
        """Add a node, with its entries, to the parent it names."""
        parent = node.parent
        assert parent is not None
        self.leaves += parent is self.root or bool(parent.children)
        node.id = child_id(parent.id, node.run)
        parent.children.setdefault(node.run[0].tobytes(), []).append(node)
        for entry in (node.attention, node.state):
            if entry is not None:
                self._count(entry, node)

    def add_state(self, node: Node, entry: Entry) -> None:
        """Give a node the state at its end."""
        node.state = entry
        self._count(entry, node)

    def remove_state(self, node: Node) -> None:
        """Drop the state at a node's end."""
        if node.state is not None:
            self._uncount(node.state)
            node.state = None

    def remove(self, node: Node) -> list[Node]:
        """Drop a node and all that follows it; returns them."""
        gone = [node]
        for one in gone:  # grows as it goes
            gone += [child for siblings in one.children.values() for child in siblings]
        for one in reversed(gone):
            self._detach(one)
        return gone

    def entries(self) -> Iterator[tuple[Node, Entry]]:
        """What is kept, least recently used first."""
        return ((node, entry) for entry, node in list(self._entries.items()))

    def touch(self, node: Node, state: bool = False) -> None:
        """Mark the runs up to a node as used now, the first ones last; with ``state``, its state as well."""
        while node.parent is not None:
            if node.attention is not None:
                self._entries.move_to_end(node.attention)
            if state and node.state is not None:
                self._entries.move_to_end(node.state)
            node, state = node.parent, False

    def oldest(self, keep: Collection[Node]) -> Iterator[tuple[Node, Entry]]:
        """What may go, least recently used first: states that were passed, and runs that nothing follows.

        Args:
            keep: nodes whose runs stay.
        """
        for entry, node in list(self._entries.items()):
            passed = entry is node.state and bool(node.children)
            if entry in self._entries and (passed or not (node.children or node in keep)):
                yield node, entry

    def drop(self, node: Node, entry: Entry, keep: Collection[Node]) -> None:
        """Drop an entry that may go, and every run that is of no use without it."""
        if entry is node.state and node.children:
            self.remove_state(node)
            return
        parent = self._detach(node)
        while parent.parent is not None and not (parent.children or parent in keep) and self._useless(parent):
            parent = self._detach(parent)

    def drop_branch(self, leaf: Node, keep: Collection[Node]) -> None:
        """Drop a leaf and its ancestors up to the next branching."""
        node = leaf
        while node.parent is not None and not (node.children or node in keep):
            node = self._detach(node)

    def clear(self) -> None:
        """Drop everything."""
        for node in [self.root, *self._entries.values()]:
            node.children.clear()  # or parents and children would keep each other
        self._entries.clear()
        self.nbytes = self.leaves = 0

    def _useless(self, leaf: Node) -> bool:
        """Whether no row can go on from here."""
        return self.stateful and leaf.state is None

    def _detach(self, node: Node) -> Node:
        """Take a leaf out of the tree; returns its parent."""
        parent = node.parent
        assert parent is not None
        first = node.run[0].tobytes()
        parent.children[first].remove(node)
        if not parent.children[first]:
            del parent.children[first]
        self.leaves -= parent is self.root or bool(parent.children)
        for entry in (node.attention, node.state):
            if entry is not None:
                self._uncount(entry)
        return parent

    def _count(self, entry: Entry, node: Node) -> None:
        self._entries[entry] = node
        self.nbytes += entry.nbytes

    def _uncount(self, entry: Entry) -> None:
        del self._entries[entry]
        self.nbytes -= entry.nbytes
