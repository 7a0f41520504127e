"""What a broker that dies costs each routing, and what it costs to have it back."""
