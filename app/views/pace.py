"""How long drawing may hold the window up at once."""

SLICE_S = 0.008
"""One slice of work that is cut into slices: half a frame at 60 Hz."""
