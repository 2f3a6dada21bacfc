-- What the reporting views are made of. All functions are total: whatever an object holds, they give a value or NULL,
-- never an error, so that no object can break a report, and no error tells of a row that a login may not see.

-- The whole number of a JSON value.
CREATE OR REPLACE FUNCTION report_int(value jsonb) RETURNS bigint
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
CREATE OR REPLACE FUNCTION report_float(value jsonb) RETURNS double precision
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
CREATE OR REPLACE FUNCTION report_date(value text) RETURNS date
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
CREATE OR REPLACE FUNCTION report_time(value text) RETURNS timestamptz
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
CREATE OR REPLACE FUNCTION report_ready(document jsonb, field text) RETURNS text
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
CREATE OR REPLACE FUNCTION report_document(body text) RETURNS jsonb
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

-- The tenant that a session may see: that of its login, or, for a session that may act as the owner of the tables, the one
-- that `registry psql --tenant` has named. Uses the name that the session was opened with, which SET ROLE does not change.
CREATE OR REPLACE FUNCTION report_tenant() RETURNS bigint
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
CREATE OR REPLACE FUNCTION report_sees_all() RETURNS boolean
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
CREATE OR REPLACE FUNCTION report_tenants_seen() RETURNS bigint[]
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
BEGIN
    RETURN (SELECT l.tenant_ids FROM report_logins l WHERE l.name = session_user::text AND l.across);
END
$function$;

-- What a provider's login sees: the definitions that its tenant exports, in the tenants that have bound them now. Asked
-- once for a query. Nothing is kept by hand: a binding is seen as soon as it is there, and no more once it has ended.
CREATE OR REPLACE FUNCTION report_bound() RETURNS TABLE (tenant_id bigint, resource text)
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
BEGIN
    RETURN QUERY SELECT b.tenant_id, b.resource
        FROM report_logins l
            JOIN tenants p ON p.id = l.provider_id AND p.deleted_at IS NULL
            JOIN api_bindings b ON b.provider_id = p.id AND b.until IS NULL
            JOIN tenants t ON t.id = b.tenant_id AND t.deleted_at IS NULL
        WHERE l.name = session_user::text;
END
$function$;

-- The revision at which a tenant has bound a definition of the session's provider. What is older in the log may be of a
-- definition of the tenant's own that had the same name.
CREATE OR REPLACE FUNCTION report_bound_since(tenant bigint, definition text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
BEGIN
    RETURN (SELECT b.since FROM api_bindings b
            JOIN report_logins l ON l.provider_id = b.provider_id AND l.name = session_user::text
        WHERE b.tenant_id = tenant AND b.resource = definition AND b.until IS NULL);
END
$function$;

-- A document without what is at a path, and without what stands in its way: where the path leads through anything but
-- objects (an array, a text: the object is of another schema), that goes whole, since what is to be hidden may be in it.
CREATE OR REPLACE FUNCTION report_without(document jsonb, path text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
DECLARE
    value jsonb := document;
BEGIN
    FOR depth IN 1 .. cardinality(path) LOOP
        IF value IS NULL OR jsonb_typeof(value) = 'null' THEN
            RETURN document;
        ELSIF jsonb_typeof(value) <> 'object' THEN
            RETURN document #- path[1:depth - 1];
        END IF;
        value := value -> path[depth];
    END LOOP;
    RETURN document #- path;
END
$function$;

-- The same for many paths by one call: PostgreSQL takes no more than some thousand calls in each other.
CREATE OR REPLACE FUNCTION report_without(document jsonb, paths jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
    DECLARE
        path jsonb;
    BEGIN
        FOR path IN SELECT jsonb_array_elements(paths) LOOP
            document := {schema}.report_without(document, ARRAY(SELECT jsonb_array_elements_text(path)));
        END LOOP;
        RETURN document;
    END
    $function$;
