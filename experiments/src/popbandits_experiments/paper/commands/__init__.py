"""The commands of the paper's experiments: entry points of the group `popbandits.commands`."""
