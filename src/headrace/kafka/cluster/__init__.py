"""A Kafka cluster of several processes on this machine, to try things out with: one or three brokers, with or without security.

`layout` says of what it consists, `certificates` makes what TLS needs, `folder` keeps it on disk, `nodes` runs its processes, `local` puts
them together.
"""
