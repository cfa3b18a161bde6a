"""`python -m refimpl.vectors check FILE.json ...`"""

import sys

from refimpl.process import ended
from refimpl.vectors import main

if __name__ == "__main__":
    sys.exit(ended(main, failed=2))
