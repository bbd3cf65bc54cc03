"""GitHub as the CI: credentials, runners, workflow runs, OIDC tokens and webhooks."""
