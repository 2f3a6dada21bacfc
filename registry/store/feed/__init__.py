"""The change log as a feed: read once per process, woken by LISTEN and NOTIFY, delivered to every subscription.

No gap, no repetition, no reordering. Knows nothing of watches, selectors or visibility. Start with feed.py.
"""
