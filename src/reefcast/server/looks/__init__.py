"""What a broker shows of itself to operators' programs (`model.looks`): in slices, between which it
does other things, and of bounded size."""
