"""Parse the words, call one function of the app, print what it gives."""

import gc

# What is made while the program starts is kept: looking for garbage in it took a tenth of `ls`.
gc.set_threshold(100_000, 50, 100)
