"""The home without Kubernetes: the store, its REST API, the controller loop, the supervisor."""
