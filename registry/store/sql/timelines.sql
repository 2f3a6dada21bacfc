-- The timeline of this server's WAL: the first part of the name of the segment that it writes. (The control file has
-- that of the last checkpoint, which a promotion need not wait for.)
CREATE OR REPLACE FUNCTION registry_timeline() RETURNS bigint LANGUAGE sql AS $function$
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
$function$;

-- Records that this server accepts writes from now on, and raises the counter of every domain beyond any revision that
-- clients can have seen from another server (registry/store/timelines.py). The revisions in between are lost:
-- `domains.lost` holds pairs of the last valid revision before the gap and the first one after it. Guards are raised,
-- too, so that no process continues with definitions that are lost.
--
-- Does nothing if there is a row after the number `after_number`: another process has done it. The first row of a
-- database raises nothing, unless that is requested by hand. Returns the number of the newest row.
CREATE OR REPLACE FUNCTION registry_begin_timeline(after_number bigint, reason text) RETURNS bigint
LANGUAGE plpgsql AS $function$
DECLARE
    -- More than one domain can write within two days at full speed.
    step CONSTANT bigint := 1000000000;
    newest bigint;
BEGIN
    LOCK TABLE timelines IN SHARE ROW EXCLUSIVE MODE;
    newest := (SELECT max(t.number) FROM timelines t);
    IF newest > after_number THEN
        RETURN newest;
    END IF;
    INSERT INTO timelines (number, system_identifier, timeline, token, reason, at)
    SELECT coalesce(newest, 0) + 1, s.system_identifier, registry_timeline(), gen_random_uuid()::text,
        CASE WHEN newest IS NULL AND reason = 'promoted' THEN 'first' ELSE reason END, clock_timestamp()
    FROM pg_control_system() s;
    IF newest IS NOT NULL OR reason <> 'promoted' THEN
        PERFORM 1 FROM domains ORDER BY id FOR UPDATE;
        UPDATE domains SET lost = coalesce(lost, '{}') || ARRAY[revision, revision + step], revision = revision + step;
        UPDATE tenants t SET definitions_revision = d.revision, namespaces_revision = d.revision
        FROM domains d WHERE d.id = t.domain_id;
        -- A new tenant must not get the number of one that was lost: processes would confuse the two.
        PERFORM setval(concat_ws('.', quote_ident(q.schemaname), quote_ident(q.sequencename))::regclass,
            coalesce(q.last_value, 0) + 1000000)
        FROM pg_sequences q WHERE q.schemaname = current_schema() AND q.data_type = 'bigint'::regtype;
    END IF;
    RETURN coalesce(newest, 0) + 1;
END
$function$;
