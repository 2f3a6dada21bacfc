-- Whether a tenant has any of the objects that `contents` describes; NULL if it describes none. `contents` is one of
--     {"resource": "widgets.example.com"}                                          all objects of a resource
--     {"prefix": "ns/", "except": {"events": null, "configmaps": ["ns/root-ca"]}}  all with this prefix, except
--                                                                                  some resources, or keys of them
CREATE OR REPLACE FUNCTION registry_in_use(tenant bigint, contents jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT
SET enable_seqscan = off
AS $function$
DECLARE
    next_resource text COLLATE "C" := '';
    prefix text := contents ->> 'prefix';
    -- The upper bound of the keys with the prefix: "0" follows "/", its last character.
    behind text := left(prefix, -1) || '0';
    excepted jsonb := coalesce(contents -> 'except', '{}'::jsonb);
BEGIN
    IF prefix IS NULL THEN
        RETURN EXISTS (SELECT 1 FROM objects o WHERE o.tenant_id = tenant AND o.resource = contents ->> 'resource');
    END IF;
    -- A tenant has few resources and many objects: a loose index scan, from one resource to the next.
    LOOP
        SELECT min(o.resource) INTO next_resource FROM objects o
        WHERE o.tenant_id = tenant AND o.resource > next_resource;
        IF next_resource IS NULL THEN
            RETURN false;
        END IF;
        IF excepted -> next_resource IS DISTINCT FROM 'null'::jsonb AND EXISTS (
            SELECT 1 FROM objects o
            WHERE o.tenant_id = tenant AND o.resource = next_resource AND o.key > prefix AND o.key < behind
                AND NOT coalesce(excepted -> next_resource ? o.key, false)
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$function$;
