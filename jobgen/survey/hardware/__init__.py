"""What a node says of its hardware: one module for each tool, text in, values out. No IO.

Every ``parse`` takes any text whatever and raises nothing: a line that it does not know is passed
over, and text that says nothing gives nothing. Only the first ``text.LIMIT`` characters are read.
"""
