-- wrk -s requests.lua URL -- METHOD CONTENT_TYPE PATHS_FILE [BODY_FILE]
-- Asks for the paths of a file in turn. NUMBER in the body becomes the count of the request.
local method, kind, body
local paths, count = {}, 0

function init(args)
  method, kind = args[1], args[2]
  for line in io.lines(args[3]) do paths[#paths + 1] = line end
  if args[4] then
    local file = io.open(args[4])
    body = file:read("*a")
    file:close()
  end
end

function request()
  count = count + 1
  local headers = { ["Authorization"] = wrk.headers["Authorization"], ["Content-Type"] = kind }
  -- A stride that is prime to the number of paths, so that neighbours are not asked for one after the other.
  local path = paths[(count * 7919) % #paths + 1]
  local text = body and string.gsub(body, "NUMBER", tostring(count)) or nil
  return wrk.format(method, path, headers, text)
end
