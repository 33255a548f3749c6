"""What server and client share by hand: errors, hashes, framing and the namespace fingerprint."""
