"""What every layer stands on: errors, clock, deadline, logging, configuration. Imports nothing of Headrace."""
