"""The command: `python -m popbandits_experiments.reliability --help`."""

from popbandits_experiments.reliability.kills import main

if __name__ == "__main__":
    main()
