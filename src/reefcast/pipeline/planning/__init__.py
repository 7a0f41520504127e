"""Plans made from what happened, or from tables that say what will.

Each of these modules has the same parts: Spark reduces events, subscriptions or a trace to what a
plan depends on (transforms of DataFrames); a pure function plans; `plan.Plan` holds the table that
comes of it and the figures that it can be compared by; a figure draws it.

- `clusters`: which subscriber should join which cluster of a SCOT;
- `links`: which soft links of a mesh would have paid;
- `covering`: what covering would spare, and what an unsubscription would cause;
- `placement`: where storages should stand. A package, and without Spark but for its rates.
"""
