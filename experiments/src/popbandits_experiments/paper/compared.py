"""The methods that the synthetic experiment compares. Cheap to import."""

COMPARED = ("random", "pbt", "near-pbt", "pb2-rand", "pb2-mult", "pb2-mix", "pb2-fuse", "pb2-fuse/all")
"""The paper's methods and ours, which are compared by default."""
