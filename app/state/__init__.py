"""What is true now: objects that own tasks and announce changes, without any widget."""
