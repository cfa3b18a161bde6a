"""Activity recognition with 30 workers, one per person, 13 of them adversarial: the paper's Fig. 1."""

import sys

from refimpl.experiments import main

if __name__ == "__main__":
    sys.exit(main("har"))
