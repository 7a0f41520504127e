"""StAN's evaluation (Matos, Nunes, Oliveira and Pereira): rows G1 to G6."""
