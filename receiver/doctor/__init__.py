"""The doctor: looks at a live installation from outside and says what is wrong with it and what helps."""
