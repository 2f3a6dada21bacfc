-- Whether a definition has an object of its resource (the definition's key is that resource), or a namespace holds
-- anything but what every namespace is given by the server itself.
CREATE OR REPLACE FUNCTION registry_in_use(tenant bigint, resource_name text, object_key text) RETURNS boolean
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $function$
DECLARE
    next_resource text COLLATE "C" := '';
BEGIN
    IF resource_name <> 'namespaces' THEN
        RETURN EXISTS (SELECT 1 FROM objects o WHERE o.tenant_id = tenant AND o.resource = object_key);
    END IF;
    -- The resources of a tenant are few, its objects many: from one resource to the next.
    LOOP
        SELECT min(o.resource) INTO next_resource FROM objects o
        WHERE o.tenant_id = tenant AND o.resource > next_resource;
        IF next_resource IS NULL THEN
            RETURN false;
        END IF;
        -- "0" is the character after "/".
        IF next_resource <> 'events' AND EXISTS (
            SELECT 1 FROM objects o
            WHERE o.tenant_id = tenant AND o.resource = next_resource
                AND o.key > object_key || '/' AND o.key < object_key || '0'
                AND (next_resource, o.key) NOT IN (
                    ('configmaps', object_key || '/kube-root-ca.crt'), ('serviceaccounts', object_key || '/default'))
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$function$;
