"""History: publications stored for those who ask later."""
