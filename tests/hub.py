"""A model hub on the loopback interface, with the faults that real networks and hubs have."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "c0ffee" + "0" * 34
_PIECE = 4096


@dataclass
class Hub:
    """What the hub offers and how it misbehaves.

    Attributes:
        models: repository → file name → content; files of the endings in `large` are LFS files.
        cuts: file name → after how many bytes each of the next connections is cut.
        refusals: statuses for the next requests, in order.
        denied: repository → (status, code) of every answer about it.
        lies: files whose announced checksum is wrong.
        ranges: whether a request for the rest of a file gets only that.
        rate: bytes per second of one transfer; 0: as fast as it goes.
        sent: body bytes per file, over all transfers.
        asked: (method, file name, where it began) of every request for a file.
    """

    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    large: tuple[str, ...] = (".safetensors",)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    denied: dict[str, tuple[int, str]] = field(default_factory=dict)
    lies: set[str] = field(default_factory=set)
    ranges: bool = True
    rate: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    endpoint: str = ""
    connections: set[socket.socket] = field(default_factory=set)

    def checksum(self, repo: str, name: str) -> str:
        """What the hub says about a file's content."""
        content = self.models[repo][name] + (b"?" if name in self.lies else b"")
        return hashlib.sha256(content).hexdigest()

    def listing(self, repo: str) -> dict[str, Any]:
        """The answer to a question about a model."""
        siblings = []
        for name, content in self.models[repo].items():
            entry: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": "b10b"}
            if name.endswith(self.large):
                entry["lfs"] = {"sha256": self.checksum(repo, name), "size": len(content), "pointerSize": 130}
            siblings.append(entry)
        return {"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings}


class _Desk(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def setup(self) -> None:
        super().setup()
        self.hub.connections.add(self.connection)

    def finish(self) -> None:
        self.hub.connections.discard(self.connection)
        super().finish()

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, *_: object) -> None:
        """Requests are kept in `Hub.asked`, not printed."""

    def _answer(self, *, body: bool) -> None:
        path = self.path.split("?")[0]
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?|/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        repo = found and (found[1] or found[2])
        if self.hub.refusals:
            self._head(self.hub.refusals.pop(0), {}, 0)
        elif not found or repo not in self.hub.models or repo in self.hub.denied:
            status, code = self.hub.denied.get(str(repo), (401, "RepoNotFound"))
            self._head(status, {"X-Error-Code": code}, 0)
        elif found[1]:
            self._send(200, {"Content-Type": "application/json"}, json.dumps(self.hub.listing(found[1])).encode())
        else:
            self._file(found[2], found[3], body=body)

    def _file(self, repo: str, name: str, *, body: bool) -> None:
        hub, content = self.hub, self.hub.models[repo].get(name)
        if content is None:
            self._head(404, {"X-Error-Code": "EntryNotFound"}, 0)
            return
        large = name.endswith(hub.large)
        tag = hub.checksum(repo, name) if large else hashlib.sha1(content).hexdigest()
        headers = {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-")) if hub.ranges else 0
        hub.asked.append((self.command, name, start))
        if start >= len(content) > 0:
            self._head(416, {}, 0)
        elif not body:
            self._head(200, headers, len(content))
        elif start:
            span = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            self._send(206, headers | span, content[start:], name)
        else:
            self._send(200, headers, content, name)

    def _send(self, status: int, headers: Mapping[str, str], content: bytes, name: str = "") -> None:
        cuts = self.hub.cuts.get(name)
        limit = cuts.pop(0) if cuts else len(content)
        self._head(status, headers, len(content))
        for at in range(0, min(limit, len(content)), _PIECE):
            piece = content[at : min(at + _PIECE, limit)]
            self.hub.sent[name] += len(piece)
            try:
                self.wfile.write(piece)
            except OSError:  # the other side has been ended
                self.close_connection = True
                return
            if self.hub.rate:
                time.sleep(len(piece) / self.hub.rate)
        if limit < len(content):
            self.close_connection = True

    def _head(self, status: int, headers: Mapping[str, str], length: int) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()


@contextmanager
def open_hub() -> Iterator[Hub]:
    """A hub that answers at `hub.endpoint` until the block is left."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Desk", (_Desk,), {"hub": hub}))
    server.daemon_threads = False
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="hub")
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        for connection in list(hub.connections):  # clients keep theirs open for later
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()


def tiny_model(weights: int = 100_000, family: str = "qwen3_vl") -> dict[str, bytes]:
    """Files that look like a model of two weight files, and others that nobody needs."""
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    files = {name: _safetensors(f"layer{number}", weights // 2, number) for number, name in enumerate(names)}
    config = {
        "model_type": family,
        "dtype": "bfloat16",
        "text_config": {
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "hidden_size": 64,
            "max_position_embeddings": 4096,
        },
        "vision_config": {"depth": 1},
    }
    index = {"weight_map": {f"layer{number}": name for number, name in enumerate(names)}}
    return files | {
        "config.json": json.dumps(config).encode(),
        "model.safetensors.index.json": json.dumps(index).encode(),
        "tokenizer.json": b"{}",
        "preprocessor_config.json": b"{}",
        "chat_template.jinja": b"{{ messages }}",
        "README.md": b"# Read me",
        "pytorch_model.bin": b"\x80" * 5000,
        "consolidated.safetensors": b"the same again" * 1000,
        "onnx/model.onnx": b"\x08" * 5000,
    }


def _safetensors(tensor: str, size: int, seed: int) -> bytes:
    """One tensor of bytes that differ from place to place."""
    header = json.dumps({tensor: {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    block = hashlib.sha256(str(seed).encode()).digest()
    return len(header).to_bytes(8, "little") + header + (block * (size // len(block) + 1))[:size]
