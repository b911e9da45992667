"""The protocol of submitting exactly once, as a pure state machine."""
