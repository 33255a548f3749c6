"""What grpc.health.v1 says of a server, and how it is found out."""
