"""Reads: single rows in batches, pages exact at one revision, history, and what controllers look up.

pages.py is the model: current rows, with the change log as the undo log. Rows leave here as they are stored, sealed
bodies among them. Knows neither the writers nor the feed.
"""
