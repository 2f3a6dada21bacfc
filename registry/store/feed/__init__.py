"""The change log as a feed: read once in a process, woken by LISTEN/NOTIFY, handed to every subscription."""
