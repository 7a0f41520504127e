"""Static and dynamic routings on interests that are skewed, and on interests that move."""
