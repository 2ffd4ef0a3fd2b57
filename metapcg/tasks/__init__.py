"""What is asked for: task families, splits, and the small problems with known answers."""
