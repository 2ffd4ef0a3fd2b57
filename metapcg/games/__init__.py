"""What a level is and how good it is: tiles, statistics, reward terms, goals."""
