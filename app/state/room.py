"""What all chats share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.settings import Generation
from app.state.chips import Desk
from app.state.clock import Clock
from app.state.model import Model
from app.state.pulse import Pulse


@dataclass(frozen=True, slots=True)
class Room:
    """What all chats share: the model that answers, the desk that drafts use, how answers are made, and the time."""

    model: Model
    desk: Desk
    pulse: Pulse
    generation: Callable[[], Generation]
    clock: Clock
