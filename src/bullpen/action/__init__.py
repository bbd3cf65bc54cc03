"""The GitHub action: a workflow's inputs in, runners or a reason out."""
