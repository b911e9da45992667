"""The planner's answer as one page for a browser, and as one picture for a slide."""
