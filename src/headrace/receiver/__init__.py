"""The receiver: CloudEvents over HTTP into Kafka, 202 once Kafka has them."""
