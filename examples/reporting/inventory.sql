-- Which definitions have which view, and how many objects there are.
SELECT d.definition, d.view, d.state, d.reason, u.objects, u.stored_bytes, u.last_write
FROM definitions d LEFT JOIN usage u USING (tenant, definition)
WHERE d.state <> 'deleted'
ORDER BY d.definition;

-- The columns that are indexed.
SELECT view, "column", type, field_path FROM catalogue WHERE indexed ORDER BY view, "column";
