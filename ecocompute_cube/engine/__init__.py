"""Walks the schedule, measures the windows, writes the journal; decides nothing."""
