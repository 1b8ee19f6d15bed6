"""`python -m proxy` is the command `callgate`."""

from proxy.cli import main

if __name__ == "__main__":
    main()
