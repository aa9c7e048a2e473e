"""What is kept on disk: the library of conversations and the media they show, without Qt."""
