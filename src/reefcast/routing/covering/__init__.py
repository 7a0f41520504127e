"""Covering: which subscriptions a broker need not tell its neighbours."""
