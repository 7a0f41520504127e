"""How fast matching is, beside three baselines in the same run: `reefcast-lab bench match`.

`table` holds filters as columns, `workloads` and `adversarial` make them; `columns` and
`end_points` are the baselines; `engines` puts them and Reefcast's index behind one interface;
`measure`, `worst` and `cliffs` (which share `cases`) take the times; `page` writes the figures of
docs/explanation/matching.md.
"""
