"""Models: finding, loading and the one port to mlx-vlm."""
