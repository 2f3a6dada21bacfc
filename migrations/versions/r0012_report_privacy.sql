-- A document without what is at a path, and without what stands in its way: where the path leads through anything but
-- objects (an array, a text: the object is of another schema), that goes whole, since what is to be hidden may be in it.
CREATE FUNCTION report_without(document jsonb, path text[]) RETURNS jsonb
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
