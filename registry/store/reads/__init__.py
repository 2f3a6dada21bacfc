"""Reads: batched single rows, pages exact at one revision, history, and lookups for controllers.

pages.py is the model: current rows, with the change log as the undo log. Rows are returned as stored, including sealed
bodies. Knows neither the writers nor the feed.
"""
