"""Lists and watches over several tenants at once (/clusters/*)."""
