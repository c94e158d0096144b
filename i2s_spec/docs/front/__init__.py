"""What the front page of the site says of the project."""
