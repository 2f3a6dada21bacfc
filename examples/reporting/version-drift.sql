-- Objects by the version that they are stored in, beside the one that they would be stored in now.
SELECT d.version AS storage_version, o.stored_version, count(*), min(o.updated_at) AS oldest_write
FROM crontabs_jobs_example_com o
JOIN definitions d ON d.view = 'crontabs_jobs_example_com' AND d.tenant = o.tenant
GROUP BY 1, 2;
