"""One suite over all transports, against a real sshd on loopback."""
