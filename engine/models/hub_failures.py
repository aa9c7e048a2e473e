"""What can go wrong between here and the hub: what is worth another try, and what to tell a person."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

_TEMPORARY = (408, 429, 500, 502, 503, 504)


def sentence(error: BaseException, repo: str, cache: Path, *, begun: bool) -> str | None:
    """What a failure means to a person; `begun`: something had come by then. None for one that nobody expects."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    for cause in _causes(error):
        if isinstance(cause, GatedRepoError):
            return (
                f"The owner of “{repo}” lets only some people have it. Open its page on the hub, accept the "
                "terms, log in with “hf auth login”, then try again."
            )
        if isinstance(cause, RepositoryNotFoundError):
            return (
                f"There is no model “{repo}” on the hub. Check the name; "
                "for a private one, log in with “hf auth login” first."
            )
        if isinstance(cause, HfHubHTTPError) and (status := _status(cause)) is not None:
            return _refusal(repo, status)
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return "The disk is full. Make room, then resume; what was received stays."
        if isinstance(cause, PermissionError):
            return f"Braid may not write to {cache}. Change the folder's permissions, then try again."
    if not transient(error):
        return None
    if begun:
        return "The connection was lost. Resume to go on where it stopped."
    return "The hub cannot be reached. Check the network connection, then try again."


def _refusal(repo: str, status: int) -> str:
    if status in (401, 403):
        return f"The hub refuses “{repo}” with this login. Log in with “hf auth login”, then try again."
    if status == 404:
        return f"A file of “{repo}” is gone from the hub. Try again."
    if status == 429:
        return "The hub asks for a pause, as there were too many downloads. Try again in some minutes."
    return f"The hub has a problem right now ({status}). Try again in some minutes; what was received stays."


def _causes(error: BaseException | None) -> Iterable[BaseException]:
    """An error and those behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    """Status of the hub's answer, if there was one."""
    return getattr(getattr(error, "response", None), "status_code", None)


def transient(error: BaseException) -> bool:
    """Whether trying again may help: no connection, a lost one, or a hub in trouble."""
    import httpx2  # what huggingface_hub talks through

    for cause in _causes(error):
        if (status := _status(cause)) is not None:
            return status in _TEMPORARY
        if isinstance(cause, (httpx2.TransportError, ConnectionError, TimeoutError)):
            return True
    return False
