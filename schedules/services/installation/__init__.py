"""The installation: initial data, the shared secret key, its workload, and local command lines."""
