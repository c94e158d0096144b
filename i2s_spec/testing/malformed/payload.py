"""This module breaks payloads: codes that cannot be, regions that were never written."""
