"""Chats as ChatGPT and Open WebUI export them."""

from __future__ import annotations

import base64
import binascii
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, Field

from app.state.talk import Medium, Said, Talk, join_runs

Find = Callable[[str], Callable[[], bytes] | None]
"""Looks a file of an export up by its id; None where the export does not hold it."""
_THOUGHTS = re.compile(r'<details type="reasoning".*?>\s*(?:<summary>.*?</summary>)?(.*?)</details>\s*', re.DOTALL)
_DATA_URL = re.compile(r"data:[\w.+-]+/([\w.+-]+);base64,")
_MILLISECONDS = 1e11
"""Times above it count milliseconds."""


# --- ChatGPT: conversations.json


class _Author(BaseModel):
    role: str


class _Content(BaseModel):
    content_type: str
    parts: list[Any] = Field(default_factory=list)
    thoughts: list[dict[str, Any]] = Field(default_factory=list)


class _Message(BaseModel):
    author: _Author
    content: _Content
    create_time: float | None = None
    recipient: str = "all"
    metadata: dict[str, Any] = Field(default_factory=dict)


class _Node(BaseModel):
    id: str
    message: _Message | None = None
    parent: str | None = None


class ChatGPT(BaseModel):
    """One conversation as ChatGPT writes it."""

    title: str | None = None
    create_time: float | None = None
    update_time: float | None = None
    mapping: dict[str, _Node]
    current_node: str | None = None

    def talk(self, find: Find) -> Talk:
        """It as a talk: what people and model said to each other, without the steps of tools."""
        begun = self.create_time or time.time()
        said = [self._said(node, begun, find) for node in self.mapping.values() if _spoken(node)]
        joined, leaf = join_runs(said, self._above(self.current_node)[0])
        updated = self.update_time or begun
        return Talk(self.title or "", begun, updated, joined, leaf, named=bool(self.title), folder="ChatGPT")

    def _said(self, node: _Node, begun: float, find: Find) -> Said:
        message = node.message
        assert message is not None
        parent, thoughts = self._above(node.parent)
        return Said(
            id=node.id,
            parent_id=parent,
            role="user" if message.author.role == "user" else "assistant",
            text=_words(message.content),
            created=message.create_time or begun,
            reasoning=thoughts if message.author.role == "assistant" else "",
            media=tuple(_assets(message, find)),
        )

    def _above(self, node_id: str | None) -> tuple[str | None, str]:
        """The nearest message that was spoken, from here up, and the thoughts between."""
        thoughts: list[str] = []
        seen: set[str] = set()
        while node_id in self.mapping and node_id not in seen:
            seen.add(node_id)
            node = self.mapping[node_id]
            if _spoken(node):
                return node_id, "\n\n".join(reversed(thoughts))
            if node.message is not None:
                thoughts += [str(each.get("content", "")) for each in reversed(node.message.content.thoughts)]
            node_id = node.parent
        return None, "\n\n".join(reversed(thoughts))


def _spoken(node: _Node) -> bool:
    message = node.message
    if message is None or message.author.role not in ("user", "assistant") or message.recipient != "all":
        return False
    if message.metadata.get("is_visually_hidden_from_conversation"):
        return False
    shown = message.content.content_type in ("text", "multimodal_text")
    return shown and (bool(_words(message.content)) or any(isinstance(part, dict) for part in message.content.parts))


def _words(content: _Content) -> str:
    return "\n\n".join(part for part in content.parts if isinstance(part, str) and part.strip())


def _assets(message: _Message, find: Find) -> Iterator[Medium]:
    attached = message.metadata.get("attachments")
    listed = [each for each in attached if isinstance(each, dict)] if isinstance(attached, list) else []
    names = {str(each.get("id")): each.get("name") for each in listed}
    for part in message.content.parts:
        pointer = part.get("asset_pointer") if isinstance(part, dict) else None
        if isinstance(pointer, str):
            file_id = pointer.rpartition("/")[2]
            yield Medium(str(names.get(file_id) or "picture"), find(file_id))


# --- Open WebUI


class _WebFile(BaseModel):
    type: str = ""
    url: str = ""
    name: str = ""


class _WebMessage(BaseModel):
    id: str
    parentId: str | None = None
    role: str
    content: str = ""
    timestamp: float | None = None
    files: list[_WebFile] | None = None


class _History(BaseModel):
    messages: dict[str, _WebMessage] = Field(default_factory=dict)
    currentId: str | None = None


class _WebChat(BaseModel):
    title: str = ""
    history: _History
    system: str | None = None


class OpenWebUI(BaseModel):
    """One conversation as Open WebUI writes it."""

    title: str = ""
    chat: _WebChat
    created_at: float | None = None
    updated_at: float | None = None
    pinned: bool | None = None

    def talk(self) -> Talk:
        """It as a talk."""
        begun = _seconds(self.created_at) or time.time()
        history = self.chat.history
        spoken = [each for each in history.messages.values() if each.role in ("user", "assistant")]
        joined, leaf = join_runs([_web_said(each, begun) for each in spoken], history.currentId)
        title = self.title or self.chat.title
        return Talk(
            title=title,
            created=begun,
            updated=_seconds(self.updated_at) or begun,
            said=joined,
            leaf=leaf,
            named=bool(title),
            system_prompt=self.chat.system or "",
            pinned=bool(self.pinned),
            folder="Open WebUI",
        )


def _web_said(message: _WebMessage, begun: float) -> Said:
    thoughts = "\n\n".join(_unquoted(found) for found in _THOUGHTS.findall(message.content))
    return Said(
        id=message.id,
        parent_id=message.parentId,
        role="user" if message.role == "user" else "assistant",
        text=_THOUGHTS.sub("", message.content),
        created=_seconds(message.timestamp) or begun,
        reasoning=thoughts,
        media=tuple(Medium(file.name or _called(file), _from_url(file.url)) for file in message.files or ()),
    )


def _unquoted(text: str) -> str:
    return "\n".join(line.removeprefix("> ").removeprefix(">") for line in text.strip().splitlines())


def _called(file: _WebFile) -> str:
    match = _DATA_URL.match(file.url)
    return f"picture.{match[1]}" if match else file.type or "file"


def _from_url(url: str) -> Callable[[], bytes] | None:
    """The bytes inside a `data:` URL; files that stayed on the server are not part of an export."""
    match = _DATA_URL.match(url)
    if match is None:
        return None

    def read() -> bytes:
        try:
            return base64.b64decode(url[match.end() :], validate=True)
        except binascii.Error:
            return b""

    return read


def _seconds(value: float | None) -> float | None:
    return value / 1000 if value is not None and value > _MILLISECONDS else value
