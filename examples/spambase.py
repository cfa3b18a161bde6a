"""Spam detection with 10 workers, 3 of them adversarial: the paper's Fig. 3. See --help for the options."""

import sys

from refimpl.experiments import main

if __name__ == "__main__":
    sys.exit(main("spambase"))
