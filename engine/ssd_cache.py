"""The cold tier: prefixes on disk, written behind by one thread and read back when memory no longer has them."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from engine import tensor_file
from engine.errors import ModelLoadError
from engine.host_array import HostArrays, of_numpy
from engine.prefix_key import Key
from engine.prefix_tree import Entry, Match, Node, PrefixTree, child_id
from engine.ssd_folder import FileName, SsdFolder
from engine.tensor_file import DamagedFile

log = logging.getLogger(__name__)

_QUEUE_BYTES = 256_000_000
"""Most bytes waiting to be written; what does not fit is tried again later."""
_KEY = "key"


@dataclass(frozen=True, slots=True)
class Piece:
    """One run's attention (``kv``) or the state at its end (``state``), in host memory.

    Attributes:
        parent: id of the run before.
        run: keys of the run.
        start: position of the first of them.
        meta: strings that belong to the arrays.
    """

    kind: str
    parent: str
    run: Key
    start: int
    arrays: HostArrays
    meta: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> FileName:
        """The file it goes into."""
        return FileName(self.parent, child_id(self.parent, self.run), self.kind)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.arrays.values())


class SsdCache:
    """Pieces on disk, found by key. Belongs to the home thread but for its two threads' inner work.

    Args:
        root: the configured folder.
        identity: names the namespace; it runs on the writer's thread, since it may read files.
        stateful: the model resumes only where its state was stored.
        on_change: called on any thread when something was read or written.
    """

    def __init__(
        self, root: Path, identity: Callable[[], str], max_bytes: int, *, stateful: bool, on_change: Callable[[], None]
    ) -> None:
        self.max_bytes = max_bytes
        self.hits = self.tokens_saved = self.dropped = self.quarantined = self.write_errors = 0
        self.written = 0
        self.nbytes = 0
        self.problem = ""
        self._root, self._identity, self._on_change = root, identity, on_change
        self._folder: SsdFolder | None = None
        self._tree = PrefixTree(stateful)
        self._nodes: dict[str, Node] = {"": self._tree.root}
        self._files: set[FileName] = set()
        self._queued: dict[FileName, int] = {}
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._opened = threading.Event()
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="braid-ssd-read")
        self._writer = threading.Thread(target=self._work, name="braid-ssd-write", daemon=True)
        self._writer.start()
        self._jobs.put(self._open)

    # ---------------------------------------------------------------- the home thread's side

    @property
    def ready(self) -> bool:
        """Whether the folder's contents are known."""
        self._hear()
        return self._opened.is_set()

    def wait(self) -> None:
        """Block until the folder's contents are known."""
        self._opened.wait()

    def has(self, name: FileName) -> bool:
        """Whether a piece is on disk or on its way there."""
        return name in self._files or name in self._queued

    @property
    def busy(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._queued)

    @property
    def room(self) -> int:
        """Bytes that may be queued now."""
        return _QUEUE_BYTES - sum(list(self._queued.values()))

    def submit(self, piece: Piece) -> bool:
        """Queue a piece for writing; False when the disk is too far behind."""
        if self._queued and piece.nbytes > self.room:
            self.dropped += 1
            return False
        self._queued[piece.name] = piece.nbytes
        self._jobs.put(partial(self._write, piece))
        return True

    def find(self, key: Key) -> Match | None:
        """The longest usable prefix on disk."""
        self._hear()
        return self._tree.find(key)

    def fetch(self, match: Match) -> Future[list[Piece] | None]:
        """Read the pieces of a prefix, its state last; None if one of them is damaged or gone."""
        names = [(node, entry.data) for node in match.node.path if (entry := node.attention) is not None]
        if match.node.state is not None:
            names.append((match.node, match.node.state.data))
        job = self._reader.submit(self._fetch, [(name, node.run, node.start) for node, name in names])
        job.add_done_callback(lambda _: self._on_change())
        return job

    def configure(self, max_bytes: int) -> None:
        """Take a new limit."""
        self.max_bytes = max_bytes
        self._jobs.put(self._trim)

    def clear(self) -> None:
        """Delete everything, of all models."""
        self._jobs.put(self._clear)

    def flush(self) -> None:
        """Block until what is queued has been written; any thread."""
        done = threading.Event()
        self._jobs.put(done.set)
        done.wait()

    def end(self) -> None:
        """Let both threads end once all that is queued is written."""
        self._jobs.put(None)
        self._reader.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Block until they have ended; any thread."""
        self._writer.join()
        self._reader.shutdown(wait=True)

    def snapshot(self) -> dict[str, Any]:
        """The contract's ``ssd_cache`` figures, in MB of 1e6 bytes."""
        return {
            "hits": self.hits,
            "tokens_saved": self.tokens_saved,
            "entry_count": len(self._files),
            "current_memory_mb": self.nbytes / 1e6,
            "max_memory_mb": self.max_bytes / 1e6,
            "written": self.written,
            "queued_mb": sum(list(self._queued.values())) / 1e6,
            "dropped": self.dropped,
            "quarantined": self.quarantined,
            "write_errors": self.write_errors,
            "problem": self.problem,
        }

    def _hear(self) -> None:
        """Take in what the threads have done since."""
        while not self._news.empty():
            self._news.get()()

    def _tell(self, news: Callable[[], None]) -> None:
        self._news.put(news)
        self._on_change()

    def _learn(self, name: FileName, run: Key, start: int) -> None:
        """A piece is on disk now."""
        self._files.add(name)
        parent = self._nodes.get(name.parent)
        if name.kind == "kv" and parent is not None and parent.end == start and name.id not in self._nodes:
            node = self._nodes[name.id] = Node(run, start, parent, Entry(name, 1))
            self._tree.attach(node)
        elif name.kind == "state" and (known := self._nodes.get(name.id)) is not None and known.state is None:
            self._tree.add_state(known, Entry(name, 1))

    def _forget(self, names: Sequence[FileName]) -> None:
        """Pieces are gone from disk, and what continues them is out of reach."""
        self._files.difference_update(names)
        for name in names:
            node = self._nodes.get(name.id)
            if node is not None and name.kind == "state":
                self._tree.remove_state(node)
            elif node is not None:
                for lost in self._tree.remove(node):
                    del self._nodes[lost.id]
                    # Out of reach, whatever is left of it: it may be written again.
                    self._files.difference_update(entry.data for entry in (lost.attention, lost.state) if entry)

    def _settled(self, name: FileName, total: int) -> None:
        self._queued.pop(name, None)
        self.nbytes = total

    # ---------------------------------------------------------------- the writer's side

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except OSError as error:
                self._report(error)
            except ModelLoadError as error:
                self.problem = str(error)
            except Exception:
                # Whoever waits for the writer would wait for ever if it ended here.
                log.exception("The cache folder's writer failed (%s)", self._root)
                self.write_errors += 1
        self._opened.set()

    def _report(self, error: OSError) -> None:
        """Say once what is wrong with the disk; answers do not depend on it."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            problem = "The disk with the cache folder is full. Free some space, or choose another folder."
        else:
            problem = f"The cache folder cannot be used: {error.strerror or error}. Choose another folder."
        if problem != self.problem:
            log.warning("%s (%s)", problem, self._root)
        self.problem = problem

    def _open(self) -> None:
        try:
            folder = SsdFolder(self._root, self._identity())
            with folder.locked():
                _, _, total = folder.make_room(0, self.max_bytes)
            self._folder = folder
            found = [(name, *piece) for name in folder.names() if (piece := self._peek(name)) is not None]
            # Runs before what continues them, and states last.
            found.sort(key=lambda one: (one[0].kind, one[2]))
            self._tell(partial(self._learn_all, found, total))
        finally:
            self._opened.set()
            self._on_change()

    def _learn_all(self, found: Sequence[tuple[FileName, Key, int]], total: int) -> None:
        for one in found:
            self._learn(*one)
        self.nbytes = total

    def _peek(self, name: FileName) -> tuple[Key, int] | None:
        """What a file says it holds; one that makes no sense is put aside."""
        assert self._folder is not None
        try:
            first, meta = tensor_file.read_first(self._folder.path(name))
            return _checked(name, first.data, meta)
        except DamagedFile:
            self._put_aside(name)
        except FileNotFoundError:
            log.info("%s was deleted by another process", name)
        return None

    def _write(self, piece: Piece) -> None:
        name = piece.name
        total = self.nbytes
        try:
            if self._folder is not None:
                total = self._write_into(self._folder, piece)
        except OSError:
            self.write_errors += 1
            raise
        finally:
            self._tell(partial(self._settled, name, total))

    def _write_into(self, folder: SsdFolder, piece: Piece) -> int:
        arrays = {_KEY: of_numpy(np.ascontiguousarray(piece.run)), **piece.arrays}
        meta = {**piece.meta, "start": str(piece.start), "parent": piece.parent}
        needed = tensor_file.size(arrays, meta)
        with folder.locked():
            # A state belongs to its run, a run to the one before.
            base = piece.name.id if piece.kind == "state" else piece.parent
            if base and not folder.has_run(base):
                return self.nbytes
            fits, gone, total = folder.make_room(needed, self.max_bytes, base)
            if gone:
                self._tell(partial(self._forget, sorted(gone, key=str)))
            if not fits:
                return total
            folder.add(piece.name, lambda file: tensor_file.write(file, arrays, meta))
        self.written += 1
        self.problem = ""
        self._tell(partial(self._learn, piece.name, piece.run, piece.start))
        return total + folder.path(piece.name).stat().st_size

    def _trim(self) -> None:
        if self._folder is not None:
            with self._folder.locked():
                _, gone, total = self._folder.make_room(0, self.max_bytes)
            self._tell(partial(self._trimmed, sorted(gone, key=str), total))

    def _trimmed(self, gone: Sequence[FileName], total: int) -> None:
        self._forget(gone)
        self.nbytes = total

    def _clear(self) -> None:
        if self._folder is not None:
            names = self._folder.names()
            with self._folder.locked():
                self._folder.clear()
            self._tell(partial(self._trimmed, names, 0))

    # ---------------------------------------------------------------- the reader's side

    def _fetch(self, wanted: Sequence[tuple[FileName, Key, int]]) -> list[Piece] | None:
        folder = self._folder
        if folder is None:
            return None
        pieces = []
        for name, run, start in wanted:
            piece = self._read(folder, name, run, start)
            if piece is None:
                self._tell(partial(self._forget, [name]))
                return None
            pieces.append(piece)
        # The runs last, and of those the first one last: it is of use to most.
        folder.touch([name for name, _, _ in reversed(wanted)])
        return pieces

    def _read(self, folder: SsdFolder, name: FileName, run: Key, start: int) -> Piece | None:
        try:
            arrays, meta = tensor_file.read(folder.path(name))
            _checked(name, arrays.pop(_KEY).data, meta)
        except (DamagedFile, KeyError):
            self._put_aside(name)
            return None
        except OSError as error:
            log.info("%s cannot be read: %s", name, error)
            return None
        return Piece(name.kind, name.parent, run, start, arrays, meta)

    def _put_aside(self, name: FileName) -> None:
        assert self._folder is not None
        self._folder.quarantine(name)
        self.quarantined += 1
        log.info("%s was damaged; its prefix is computed again", name)


def _checked(name: FileName, run: Key, meta: dict[str, str]) -> tuple[Key, int]:
    """Raise for a file whose contents are not those that its name stands for."""
    start = meta.get("start", "")
    if run.ndim != 2 or run.dtype != np.uint64 or not start.isdecimal() or child_id(name.parent, run) != name.id:
        raise DamagedFile(f"{name} holds something else")
    return run, int(start)
