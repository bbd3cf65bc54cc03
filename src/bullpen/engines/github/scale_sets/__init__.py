"""Runner scale sets of GitHub Actions."""
