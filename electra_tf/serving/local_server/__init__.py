"""Exported models over REST and gRPC, on this machine."""
