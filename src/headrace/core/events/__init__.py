"""CloudEvents: the event itself and its bindings to HTTP and Kafka (CloudEvents 1.0 and 0.3, each kept at its version).

`model` is the event, `attributes` the rules for names and values, `jsonformat` the JSON event format, `http` and `kafka` the
protocol bindings. Event data is bytes and stays the same bytes on every path.
"""
