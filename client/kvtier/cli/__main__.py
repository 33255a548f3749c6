"""`python -m kvtier.cli`, the same as `kvtier`."""

import sys

from kvtier.cli.main import main

sys.exit(main())
