export const state: string = String.raw`
-- Precedes every script: how the state of an event is stored (design.md §4, §7).
--
-- KEYS     for each event: the hash tag of its partition in braces, "e", the 16 bytes of its id.
-- ARGV[1]  length of a generation of done marks, ms; 0 without an inbox, where every event has its own key.
-- ARGV[2]  how long the key of a claim or a wait outlives its end, ms. If the key expired with the lease, a takeover
--          would look like a first claim.
local MARK_MS = tonumber(ARGV[1])
local KEEP_MS = tonumber(ARGV[2])
-- Marks in a bucket on average; at most about three times as many. A bucket stays a listpack, which needs a sixth of
-- the memory of a hash table.
local FILL = 50
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

-- Done marks are hashes id → fingerprint, in two generations. The buckets of a generation grow one by one (linear
-- hashing): each mark has exactly one place for a given number of buckets, and one step of growth splits one bucket.
-- The first byte of an id is its partition. The other bytes are the field, and four of them choose the bucket.
local function split(key)
  return string.sub(key, 1, -18), string.sub(key, -15)
end

local function bucket_key(tag, generation, index)
  return tag .. 'm' .. generation .. ':' .. index
end

local function hash_of(field)
  local a, b, c, d = string.byte(field, 1, 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- The number of buckets before this round of growth: the largest power of two that is not above the current number.
local function round_of(count)
  local _, exponent = math.frexp(count)
  return math.ldexp(1, exponent - 1)
end

local function index_of(field, count)
  local round, hash = round_of(count), hash_of(field)
  local index = hash % round
  return index < count - round and hash % (round * 2) or index
end

-- Numbers of buckets by generation: "newest:count;before:count". nil: another program's key, so there are no marks.
local function counts_of(tag)
  local text = redis.pcall('GET', tag .. 'g')
  if not text then return {} end
  if type(text) ~= 'string' then return nil end
  local newest, count, before, count_before = string.match(text, '^(%d+):(%d+);?(%d*):?(%d*)$')
  if not newest then return nil end
  local counts = { [tonumber(newest)] = tonumber(count) }
  if before ~= '' then counts[tonumber(before)] = tonumber(count_before) end
  return counts
end

local function put_counts(tag, counts, newest)
  local text = newest .. ':' .. counts[newest]
  local before = counts[newest - 1]
  if before then text = text .. ';' .. (newest - 1) .. ':' .. before end
  redis.call('SET', tag .. 'g', text, 'PX', whole((newest + 2) * MARK_MS - now))
end

local function mark_of(key)
  local tag, field = split(key)
  local counts = counts_of(tag)
  if not counts then return nil end
  local newest = math.floor(now / MARK_MS)
  for generation = newest, newest - 1, -1 do
    local count = counts[generation]
    if count then
      local bucket = bucket_key(tag, generation, index_of(field, count))
      local fingerprint = redis.pcall('HGET', bucket, field)
      if type(fingerprint) == 'string' and #fingerprint == 8 then return fingerprint end
    end
  end
  return nil
end

-- A new generation begins with as many buckets as the marks of the one before fill, estimated from a few buckets.
local function first_count(tag, generation, count)
  if not count then return 1 end
  local asked = math.min(4, count)
  local seen = 0
  for turn = 0, asked - 1 do
    local index = math.floor(turn * count / asked)
    local size = redis.pcall('HLEN', bucket_key(tag, generation, index))
    if type(size) == 'number' then seen = seen + size end
  end
  return math.max(1, math.ceil(seen / asked * count / FILL))
end

-- Adds one bucket, and moves its marks out of the bucket that is split. A key of another program stays as it is.
local function grow(tag, counts, generation)
  local count = counts[generation]
  local round = round_of(count)
  local from, to = bucket_key(tag, generation, count - round), bucket_key(tag, generation, count)
  local fields = redis.pcall('HGETALL', from)
  if type(fields) ~= 'table' or fields.err then return end
  local moved, names = {}, {}
  for at = 1, #fields, 2 do
    if hash_of(fields[at]) % (round * 2) == count then
      names[#names + 1] = fields[at]
      moved[#moved + 1] = fields[at]
      moved[#moved + 1] = fields[at + 1]
    end
  end
  if #names > 0 then
    local added = redis.pcall('HSET', to, unpack(moved))
    if type(added) ~= 'number' then return end
    redis.call('PEXPIRE', to, whole((generation + 2) * MARK_MS - now))
    redis.call('HDEL', from, unpack(names))
  end
  counts[generation] = count + 1
  put_counts(tag, counts, generation)
end

-- False if a key of another program is in the place of the mark.
local function put_mark(key, fingerprint)
  local tag, field = split(key)
  local generation = math.floor(now / MARK_MS)
  local counts = counts_of(tag)
  if not counts then return false end
  if not counts[generation] then
    counts[generation] = first_count(tag, generation - 1, counts[generation - 1])
    put_counts(tag, counts, generation)
  end
  local bucket = bucket_key(tag, generation, index_of(field, counts[generation]))
  local added = redis.pcall('HSET', bucket, field, fingerprint)
  if added ~= 1 then return added == 0 end
  local size = redis.call('HLEN', bucket)
  if size == 1 then redis.call('PEXPIRE', bucket, whole((generation + 2) * MARK_MS - now)) end
  -- A random byte of the id decides, which spreads growth evenly over time and over partitions.
  if size > FILL / 2 and string.byte(field, 5) < 256 / FILL then grow(tag, counts, generation) end
  return true
end
`
