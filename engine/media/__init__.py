"""Files, bytes and pictures in; upright RGB pixels, frames and 16 kHz mono samples out."""
