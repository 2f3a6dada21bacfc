-- What has changed since yesterday, and by whom: newest first.
SELECT valid_from, operation, namespace, name, user_name, field_manager, revision
FROM crontabs_jobs_example_com_history
WHERE valid_from >= now() - interval '1 day'
ORDER BY valid_from DESC;

-- The busiest writers.
SELECT user_name, field_manager, operation, count(*)
FROM crontabs_jobs_example_com_history
WHERE valid_from >= now() - interval '1 day'
GROUP BY 1, 2, 3 ORDER BY count(*) DESC;
