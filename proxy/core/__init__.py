"""Only here: the words and their arithmetic. Standard library only."""
