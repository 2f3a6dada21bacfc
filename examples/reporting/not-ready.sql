-- Objects that have not been ready for an hour, the longest first.
SELECT namespace, name, ready_reason, now() - ready_since AS since
FROM crontabs_jobs_example_com
WHERE NOT ready AND ready_since < now() - interval '1 hour'
ORDER BY ready_since;
