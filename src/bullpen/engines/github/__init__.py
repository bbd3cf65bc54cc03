"""GitHub as the CI: who we are there, its runners, its workflow runs, and what it tells us unasked."""
