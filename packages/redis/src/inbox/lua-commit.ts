/**
 * Applies the writes of a handler and marks its events as done, or changes nothing.
 *
 * A script is isolated, but an error in the middle of it leaves what it wrote before. So everything that can fail is looked
 * for first: the fence, watched keys, types, integers, overflow, NaN, and the rights of the user. The writes are then
 * played on a shadow of the keys, because one write may decide whether the next one fits. What memory or a disk refuses
 * (`-OOM`, `-MISCONF`, `-READONLY`) is refused at the first write, or not at all: Redis lets a script that has written go on.
 *
 * KEYS  the list of what is due, the list of dead letters; for each event its value and its lock; then the keys of the program.
 * ARGV  token; number of events; window in ms; for each event how its value must begin ('' if there must be none), its name,
 *       its fingerprint, its result ('' for none); number of watched keys; for each its place and its digest; for each
 *       write its command, the place of its key, the number of its arguments, the arguments.
 *
 * Answers done | lost | watched place | refused write code text | torn write text.
 */
export const commit: string = `
local token, events, window = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local at = 4
local marks = {}
for i = 1, events do
  local key, lock = KEYS[1 + 2 * i], KEYS[2 + 2 * i]
  local want, value = ARGV[at], redis.call('GET', key)
  local isMine = redis.call('GET', lock) == token
  local fits = want == '' and not value or want ~= '' and value and string.sub(value, 1, #want) == want
  if not isMine or not fits then return { 'lost' } end
  marks[i] = { key = key, lock = lock, name = ARGV[at + 1], text = 'd' .. ARGV[at + 2] .. ' ' .. whole(now) .. ' ' .. ARGV[at + 3] }
  marks[i].isCounted = want ~= ''
  at = at + 4
end

local watches = tonumber(ARGV[at])
at = at + 1
for i = 1, watches do
  local key = KEYS[tonumber(ARGV[at])]
  if digest_of(key) ~= ARGV[at + 1] then return { 'watched', key } end
  at = at + 2
end

local writes = {}
while at <= #ARGV do
  local count = tonumber(ARGV[at + 2])
  local write = { command = ARGV[at], key = KEYS[tonumber(ARGV[at + 1])], args = {} }
  for i = 1, count do write.args[i] = ARGV[at + 2 + i] end
  writes[#writes + 1] = write
  at = at + 3 + count
end

-- A 64-bit integer as two whole numbers, high * 10^9 + low with 0 <= low < 10^9: a Lua number has 53 bits.
local BILLION = 1000000000
local function in_range(n)
  local isLow = n.high < -9223372037 or n.high == -9223372037 and n.low < 145224192
  local isHigh = n.high > 9223372036 or n.high == 9223372036 and n.low > 854775807
  return not isLow and not isHigh
end
local function sum(a, b)
  local high, low = a.high + b.high, a.low + b.low
  if low >= BILLION then high, low = high + 1, low - BILLION end
  return { high = high, low = low }
end
-- As strictly as Redis reads integers: no spaces, no plus, no leading zeros.
local function integer(text)
  if type(text) == 'table' then return text end
  local minus, digits = string.match(text, '^(%-?)(%d+)$')
  local isPlain = digits and #digits <= 19 and (text == '0' or string.sub(digits, 1, 1) ~= '0')
  if not isPlain then return nil end
  local high, low = tonumber(string.sub(digits, 1, -10)) or 0, tonumber(string.sub(digits, -9))
  if minus == '-' then
    high, low = -high, -low
    if low < 0 then high, low = high - 1, low + BILLION end
  end
  local n = { high = high, low = low }
  return in_range(n) and n or nil
end

local shadows = {}
local function shadow_of(key)
  local known = shadows[key]
  if not known then
    known = { type = redis.call('TYPE', key).ok, isOnServer = true, parts = {} }
    shadows[key] = known
  end
  return known
end
local function become(shadow, type)
  shadow.type, shadow.isOnServer, shadow.parts, shadow.value = type, false, {}, nil
end
local function demand(shadow, type)
  if shadow.type == 'none' then become(shadow, type) end
  if shadow.type ~= type then return { 'WRONGTYPE', 'the key holds a ' .. shadow.type .. ', and the write needs a ' .. type } end
end
local function added(held, more)
  local before = integer(held)
  if not before then return nil, { 'NOTINTEGER', 'the value is not an integer of 64 bits' } end
  local after = sum(before, integer(more))
  if not in_range(after) then return nil, { 'OVERFLOW', 'the sum would not be an integer of 64 bits' } end
  return after
end

local CHECK = {
  SET = function(shadow, args)
    become(shadow, 'string')
    shadow.value = args[1]
  end,
  DEL = function(shadow) become(shadow, 'none') end,
  INCRBY = function(shadow, args, key)
    local wrong = demand(shadow, 'string')
    if wrong then return wrong end
    local held = shadow.value or shadow.isOnServer and redis.call('GET', key) or '0'
    shadow.value, wrong = added(held, args[1])
    return wrong
  end,
  HSET = function(shadow, args)
    local wrong = demand(shadow, 'hash')
    if wrong then return wrong end
    for i = 1, #args, 2 do shadow.parts[args[i]] = args[i + 1] end
  end,
  HINCRBY = function(shadow, args, key)
    local wrong = demand(shadow, 'hash')
    if wrong then return wrong end
    local held = shadow.parts[args[1]] or shadow.isOnServer and redis.call('HGET', key, args[1]) or '0'
    shadow.parts[args[1]], wrong = added(held, args[2])
    return wrong
  end,
  ZADD = function(shadow, args)
    local wrong = demand(shadow, 'zset')
    if wrong then return wrong end
    shadow.parts[args[2]] = tonumber(args[1])
  end,
  ZINCRBY = function(shadow, args, key)
    local wrong = demand(shadow, 'zset')
    if wrong then return wrong end
    local held = shadow.parts[args[2]] or shadow.isOnServer and tonumber(redis.call('ZSCORE', key, args[2]) or '0') or 0
    local score = held + tonumber(args[1])
    if score ~= score then return { 'NAN', 'the score would not be a number' } end
    shadow.parts[args[2]] = score
  end,
  SADD = function(shadow) return demand(shadow, 'set') end,
  LPUSH = function(shadow) return demand(shadow, 'list') end,
  XADD = function(shadow, _, key)
    local wrong = demand(shadow, 'stream')
    if wrong or not shadow.isOnServer then return wrong end
    local fields = redis.call('XINFO', 'STREAM', key)
    for i = 1, #fields, 2 do
      local isLast = fields[i] == 'last-generated-id' and fields[i + 1] == '18446744073709551615-18446744073709551615'
      if isLast then return { 'EXHAUSTED', 'the stream has used its last id' } end
    end
  end,
  PEXPIRE = function() end,
  ['JSON.SET'] = function(shadow, args, key)
    if args[1] == '$' then
      local wrong = shadow.type ~= 'none' and demand(shadow, 'ReJSON-RL')
      if wrong then return wrong end
      become(shadow, 'ReJSON-RL')
      return
    end
    if not shadow.isOnServer or shadow.type ~= 'ReJSON-RL' then return { 'WRONGTYPE', 'only the root ($) of a document that is not there yet can be set' } end
    local found = redis.pcall('JSON.TYPE', key, args[1])
    if type(found) == 'table' and found.err then return { 'PATH', found.err } end
  end,
}

for n, write in ipairs(writes) do
  local wrong = CHECK[write.command](shadow_of(write.key), write.args, write.key)
  if wrong then return { 'refused', n, wrong[1], wrong[2] } end
  -- From Redis 7 on. An older server refuses a command without rights when it comes to it.
  if redis.acl_check_cmd and not redis.acl_check_cmd(write.command, write.key, unpack(write.args)) then
    return { 'refused', n, 'NOPERM', 'the user of the client may not run ' .. write.command .. ' on this key' }
  end
end

for n, write in ipairs(writes) do
  local answer = redis.pcall(write.command, write.key, unpack(write.args))
  if type(answer) == 'table' and answer.err then
    if n == 1 then return redis.error_reply(answer.err) end
    return { 'torn', n, answer.err }
  end
end
for _, mark in ipairs(marks) do
  local answer = redis.pcall('SET', mark.key, mark.text, 'PX', window)
  if type(answer) == 'table' and answer.err then
    if #writes == 0 then return redis.error_reply(answer.err) end
    return { 'torn', 0, answer.err }
  end
end
-- The effect and its marks are there. A lock that stays expires, and a name on the list of a done event is passed over.
for _, mark in ipairs(marks) do
  redis.pcall('DEL', mark.lock)
  if mark.isCounted then redis.pcall('ZREM', KEYS[1], mark.name) end
end
return { 'done' }
`
