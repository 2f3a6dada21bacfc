-- What a provider's login sees: the definitions that its tenant exports, in the tenants that have bound them now. Asked
-- once for a query. Nothing is kept by hand: a binding is seen as soon as it is there, and no more once it has ended.
CREATE FUNCTION report_bound() RETURNS TABLE (tenant_id bigint, resource text)
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
CREATE FUNCTION report_bound_since(tenant bigint, definition text) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE SET search_path = {schema}, pg_temp AS $function$
BEGIN
    RETURN (SELECT b.since FROM api_bindings b
            JOIN report_logins l ON l.provider_id = b.provider_id AND l.name = session_user::text
        WHERE b.tenant_id = tenant AND b.resource = definition AND b.until IS NULL);
END
$function$;
