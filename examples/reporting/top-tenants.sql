-- The largest tenants: for a login across tenants (registry sql grant platform --all-tenants).
SELECT tenant, sum(objects) AS objects, pg_size_pretty(sum(stored_bytes)) AS size, max(last_write) AS last_write
FROM usage
GROUP BY tenant
ORDER BY sum(objects) DESC
LIMIT 20;
