"""Options by the ecosystem's own names: of reads, writes and streams."""
