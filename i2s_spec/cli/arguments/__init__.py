"""What several verbs share: the files that they read and write, the models that they open."""
