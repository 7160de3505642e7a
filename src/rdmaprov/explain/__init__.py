"""Files that somebody was given: what each is, what it shows, and what they show together."""
