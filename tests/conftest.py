"""Settings of all tests."""

import os

from hypothesis import settings

# a shared machine can be slow at any moment, so no example fails for taking long; continuous integration
# replays the same examples each time, everywhere else new ones are tried
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
