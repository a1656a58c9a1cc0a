"""The methods that the synthetic experiment compares, and what they cost. Cheap to import."""

COMPARED = ("random", "pbt", "near-pbt", "pb2-rand", "pb2-mult", "pb2-mix", "pb2-fuse", "pb2-fuse/all")
"""The paper's methods and ours, which are compared by default."""

COSTS = {
    "random": 0.01,
    "pbt": 0.02,
    "mf-pbt": 0.02,
    "near-pbt": 0.02,
    "patient-pbt": 0.5,
    "pb2-fuse/all": 1.5,
    "ipbt": 1.5,
    "bg-pbt": 1.5,
}
"""Rough cost of a run relative to PB2-Mix, used to estimate the time left; 1 for the others."""
