"""hypothesis: random on a desk, the same every time in CI. No time limits: the machines are noisy."""

import os

import hypothesis

hypothesis.settings.register_profile("desk", deadline=None, max_examples=100)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=100, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")
