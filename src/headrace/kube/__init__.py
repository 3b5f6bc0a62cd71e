"""The Kubernetes home: custom resources, operator, admission webhooks, the contract in ConfigMaps, the data plane's objects."""
