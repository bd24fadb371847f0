export const state: string = String.raw`
-- Precedes every script: how the state of an event is stored (design.md §4, §7).
--
-- KEYS     for each event: the hash tag of its partition in braces, "e", the 16 bytes of its id; with an inbox, scripts
--          that use done marks get the two keys behind it where the mark may be.
-- ARGV[1]  length of a generation of done marks, ms; 0 without an inbox, where every event has its own key.
-- ARGV[2]  how long the key of a claim or a wait outlives its end, ms. If the key expired with the lease, a takeover
--          would look like a first claim.
local MARK_MS = tonumber(ARGV[1])
local KEEP_MS = tonumber(ARGV[2])
-- Keys of an event in scripts that use done marks.
local STRIDE = MARK_MS > 0 and 3 or 1
local now = clock()

local function whole(number)
  return string.format('%.0f', number)
end

-- A value consists of version, kind, fingerprint (8 bytes) and text. Times are whole milliseconds of the clock above.
--   p  in progress  "leaseUntil attempt by parked owner."
--   w  waiting      "notBefore attempt parked."
--   d  done         "bytes result", -1 bytes without a result
--   x  dead         "attempt reason."
local function put(key, kind, fingerprint, text, ttl)
  redis.call('SET', key, '1' .. kind .. fingerprint .. text, 'PX', whole(math.max(1, ttl)))
end

local READ = {
  p = function(text)
    local till, attempt, by, parked, owner = string.match(text, '^(%d+) (%d+) (%a+) (%d) (.+)%.$')
    return till and { till = tonumber(till), attempt = tonumber(attempt), by = by, parked = parked, owner = owner }
  end,
  w = function(text)
    local till, attempt, parked = string.match(text, '^(%d+) (%d+) (%d)%.$')
    return till and { till = tonumber(till), attempt = tonumber(attempt), parked = parked }
  end,
  d = function(text)
    local bytes, result = string.match(text, '^(%-?%d+) (.*)$')
    if not bytes then return nil end
    if bytes == '-1' and result == '' then return {} end
    return tonumber(bytes) == #result and { result = result } or nil
  end,
  x = function(text)
    local attempt, reason = string.match(text, '^(%d+) (.+)%.$')
    return attempt and { attempt = tonumber(attempt), reason = reason }
  end,
}

-- nil: absent. Kind "?": another type or version, or cut short. No script changes such a key.
local function get(key)
  local value = redis.pcall('GET', key)
  if not value then return nil end
  -- Any other error is not about the key: the same call again ends the script with it.
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then redis.call('GET', key) end
  local kind = type(value) == 'string' and string.match(value, '^1([pwdx])........')
  local state = kind and READ[kind](string.sub(value, 11))
  if not state then return { kind = '?' } end
  state.kind = kind
  state.fingerprint = string.sub(value, 3, 10)
  return state
end

local function is_conflict(stored, seen)
  local version = string.sub(stored, 8)
  return version ~= '\0' and version == string.sub(seen, 8) and stored ~= seen
end

-- The fence: the state of the event if this owner holds it, whether the lease has expired or not.
local function mine(key, owner)
  local state = get(key)
  if state and state.kind == 'p' and state.owner == owner then return state end
  return nil
end

local function put_progress(key, state)
  local text = string.format('%.0f %d %s %s ', state.till, state.attempt, state.by, state.parked)
  put(key, 'p', state.fingerprint, text .. state.owner .. '.', state.till - now + KEEP_MS)
end

local function put_waiting(key, state, attempt, till)
  local text = string.format('%.0f %d %s.', till, attempt, state.parked)
  put(key, 'w', state.fingerprint, text, till - now + KEEP_MS)
end

local function put_dead(key, state, reason, ttl)
  put(key, 'x', state.fingerprint, state.attempt .. ' ' .. reason .. '.', ttl)
end

-- Done marks are hashes of fields: the 15 bytes of an id behind its partition → fingerprint. A mark is in one of two keys,
-- for even and odd generations, and the field "g" says which generation the key holds. Without that field a clock
-- that was set back would mix generations, and marks would outlive the rows they stand for.
local GENERATION = MARK_MS > 0 and math.floor(now / MARK_MS) or 0
local THIS, LAST = whole(GENERATION), whole(GENERATION - 1)

local function bucket_key(place, generation)
  return KEYS[place + 1 + generation % 2]
end

local function mark_in(place, generation, text)
  local found = redis.pcall('HMGET', bucket_key(place, generation), 'g', string.sub(KEYS[place], -15))
  if found.err or found[1] ~= text then return nil end
  return found[2] and #found[2] == 8 and found[2] or nil
end

local function mark_of(place)
  return mark_in(place, GENERATION, THIS) or mark_in(place, GENERATION - 1, LAST)
end

-- How long a mark that is put now lives, ms: as its bucket.
local function mark_lives()
  return (GENERATION + 2) * MARK_MS - now
end

-- False if a key of another program is in the place of the bucket. Without a field: that of the event whose key is there.
local function put_mark(place, fingerprint, field)
  field = field or string.sub(KEYS[place], -15)
  local bucket = bucket_key(place, GENERATION)
  local held = redis.pcall('HGET', bucket, 'g')
  if held == THIS then
    redis.call('HSET', bucket, field, fingerprint)
    return true
  end
  if type(held) == 'table' or not held and redis.call('EXISTS', bucket) == 1 then return false end
  redis.call('DEL', bucket)
  redis.call('HSET', bucket, 'g', THIS, field, fingerprint)
  redis.call('PEXPIRE', bucket, whole(mark_lives()))
  return true
end
`
