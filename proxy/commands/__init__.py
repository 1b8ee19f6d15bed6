"""Only here is what a person types at a terminal: a file a command, each a function that reads its options, calls what
does the work, prints, and ends with an exit code: 0 well, 1 something was found wrong, 2 wrong usage.
"""
