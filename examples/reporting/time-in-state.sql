-- How long each object has been ready, not ready, or silent about it, within the retention time.
SELECT namespace, name, ready, sum(coalesce(valid_to, now()) - coalesce(valid_from, valid_to)) AS time
FROM crontabs_jobs_example_com_history
WHERE operation <> 'delete'
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;
