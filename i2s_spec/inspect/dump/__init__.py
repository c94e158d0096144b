"""The dump: bytes on the left, what they mean on the right."""
