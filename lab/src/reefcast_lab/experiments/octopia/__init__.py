"""The evaluation of OctopiA (`papers`: section 10): scenarios O1 to O13, against PADRES."""
