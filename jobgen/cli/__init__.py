"""Parse words, call one app function, print its value."""
