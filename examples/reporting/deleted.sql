-- What was deleted, when, by whom.
SELECT valid_from AS deleted_at, namespace, name, user_name, field_manager, revision
FROM crontabs_jobs_example_com_history
WHERE operation = 'delete'
ORDER BY valid_from DESC;

-- What there was a day ago.
SELECT namespace, name, ready FROM crontabs_jobs_example_com_as_of(now() - interval '1 day');
