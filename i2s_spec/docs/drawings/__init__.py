"""The drawings of the chapters, each made from what the schema, the graphs or the chapters themselves declare."""
