-- How long each object has been ready, not ready, or silent about it, within the last seven days.
SELECT namespace, name, value AS ready, duration, stays, still
FROM time_in_state('crontabs_jobs_example_com_history', 'ready', now() - interval '7 days')
ORDER BY 1, 2, 3;
