"""What docs/security.md claims, shown on hostile tables."""
