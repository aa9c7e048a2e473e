"""Braid, a desktop app that answers many chats about pictures at once on your own machine."""

__version__ = "0.1.0"
