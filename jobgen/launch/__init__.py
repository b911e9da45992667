"""One file a launcher, and the table of them."""
