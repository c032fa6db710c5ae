"""The claims of docs/security.md, tested on hostile tables."""
