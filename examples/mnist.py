"""Digit classification with 10 workers of two labels each, 3 of them adversarial: the paper's Fig. 2."""

import sys

from refimpl.experiments import main

if __name__ == "__main__":
    sys.exit(main("mnist"))
