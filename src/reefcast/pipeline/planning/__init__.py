"""Plans made from a trace of the past, or from tables that describe the future.

Each of these modules has the same parts: Spark reduces events, subscriptions or a trace to what a
plan depends on (transforms of DataFrames); a pure function plans; `plan.Plan` holds the resulting
table and the figures for comparison; a drawing shows it.

- `clusters`: which subscriber should join which cluster of a SCOT;
- `links`: which soft links of a mesh would have paid;
- `covering`: what covering would spare, and what an unsubscription would cause;
- `placement`: where storages should stand. A package, and without Spark but for its rates."""
