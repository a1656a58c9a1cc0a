"""What every room may use: records, settings and their rules, types, words, optional libraries, temporary folders."""
