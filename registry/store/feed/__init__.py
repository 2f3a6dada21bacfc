"""The change log as a feed: read once in a process, woken by LISTEN and NOTIFY, handed to every subscription.

No gap, no repetition, no reordering. Knows nothing of watches, selectors or visibility. Begin with feed.py.
"""
