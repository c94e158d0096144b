"""This module breaks tails: scales that are no scales."""
