"""What both homes do alike: the control loop, actions on Kafka, and what the control plane reads from it."""
