"""The gate: what pytest needs to judge a fleet's nodes by what their site says."""
