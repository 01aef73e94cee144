"""The time model, fitted: `python training/fit_times.py [FOLDER]`; see `times/fit.py`."""

import sys

from times.fit import main

sys.exit(main())
