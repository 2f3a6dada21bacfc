-- What the reporting views are made of. All functions are total: whatever an object holds, they give a value or NULL,
-- never an error, so that no object can break a report, and no error tells of a row that a login may not see.

-- The whole number of a JSON value.
CREATE FUNCTION report_int(value jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    number numeric;
BEGIN
    IF jsonb_typeof(value) <> 'number' THEN
        RETURN NULL;
    END IF;
    number := value::numeric;
    IF number < -9223372036854775808 OR number > 9223372036854775807 OR number <> trunc(number) THEN
        RETURN NULL;
    END IF;
    RETURN number::bigint;
END
$function$;

-- The number of a JSON value.
CREATE FUNCTION report_float(value jsonb) RETURNS double precision
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    number numeric;
BEGIN
    IF jsonb_typeof(value) <> 'number' THEN
        RETURN NULL;
    END IF;
    number := value::numeric;
    IF abs(number) > 1.7976931348623157e308 THEN
        RETURN NULL;
    END IF;
    IF number <> 0 AND abs(number) < 5e-324 THEN
        RETURN 0;
    END IF;
    RETURN number::double precision;
END
$function$;

-- The day of a text such as 2026-02-28.
CREATE FUNCTION report_date(value text) RETURNS date
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    year int;
    month int;
    day int;
    longest int;
BEGIN
    IF value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN
        RETURN NULL;
    END IF;
    year := substr(value, 1, 4)::int;
    month := substr(value, 6, 2)::int;
    day := substr(value, 9, 2)::int;
    longest := CASE
        WHEN month IN (4, 6, 9, 11) THEN 30
        WHEN month <> 2 THEN 31
        WHEN mod(year, 4) = 0 AND (mod(year, 100) <> 0 OR mod(year, 400) = 0) THEN 29
        ELSE 28
    END;
    IF year < 1 OR month NOT BETWEEN 1 AND 12 OR day < 1 OR day > longest THEN
        RETURN NULL;
    END IF;
    RETURN make_date(year, month, day);
END
$function$;

-- The time of a text of RFC 3339. It names its offset, so the result depends on no setting.
CREATE FUNCTION report_time(value text) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
BEGIN
    IF value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,12})?([Zz]|[+-](0[0-9]|1[0-5]):[0-5][0-9])$'
        OR {schema}.report_date(substr(value, 1, 10)) IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN value::timestamptz;
END
$function$;

-- A field of the condition that tells whether an object is ready: the one of type Ready, else Available.
CREATE FUNCTION report_ready(document jsonb, field text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    conditions jsonb := document #> '{status,conditions}';
    condition jsonb;
    found text;
BEGIN
    IF conditions IS NULL OR jsonb_typeof(conditions) <> 'array' THEN
        RETURN NULL;
    END IF;
    FOR condition IN SELECT jsonb_array_elements(conditions) LOOP
        IF condition ->> 'type' = 'Ready' THEN
            RETURN condition ->> field;
        ELSIF condition ->> 'type' = 'Available' THEN
            found := condition ->> field;
        END IF;
    END LOOP;
    RETURN found;
END
$function$;

-- The object of a stored body (registry/store/types.py, Row) without its managed fields. jsonb has no U+0000.
CREATE FUNCTION report_document(body text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
BEGIN
    IF left(body, 1) <> '"' THEN
        RETURN NULL;    -- sealed
    END IF;
    IF strpos(body, '\u0000') > 0 THEN
        body := regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
    END IF;
    RETURN ('{"metadata":{' || body)::jsonb #- '{metadata,managedFields}';
END
$function$;

-- The tenant that a session may see. A login sees the one that it was made for; whoever may act as the owner of the
-- tables, the one that `registry psql --tenant` has named. Reads the name that the session was opened with, which
-- SET ROLE does not change.
CREATE FUNCTION report_tenant() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
DECLARE
    login report_logins;
BEGIN
    SELECT * INTO login FROM report_logins l WHERE l.name = session_user::text;
    IF FOUND THEN
        RETURN (SELECT t.id FROM tenants t
            WHERE NOT login.across AND t.id = login.tenant_ids[1] AND t.deleted_at IS NULL);
    ELSIF pg_has_role(session_user, current_user, 'MEMBER') THEN
        RETURN (SELECT t.id FROM tenants t
            WHERE t.name = current_setting('registry.tenant', true) AND t.deleted_at IS NULL);
    END IF;
    RETURN NULL;
END
$function$;

-- Whether a session may see the rows of every tenant.
CREATE FUNCTION report_sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
DECLARE
    login report_logins;
BEGIN
    SELECT * INTO login FROM report_logins l WHERE l.name = session_user::text;
    IF FOUND THEN
        RETURN login.across AND login.tenant_ids IS NULL;
    END IF;
    RETURN pg_has_role(session_user, current_user, 'MEMBER');
END
$function$;

-- The tenants that a session may see across, where they have been named.
CREATE FUNCTION report_tenants_seen() RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
BEGIN
    RETURN (SELECT l.tenant_ids FROM report_logins l WHERE l.name = session_user::text AND l.across);
END
$function$;
