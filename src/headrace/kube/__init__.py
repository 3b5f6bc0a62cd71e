"""The home on Kubernetes: CRDs, operator, admission webhooks, contract in ConfigMaps."""
