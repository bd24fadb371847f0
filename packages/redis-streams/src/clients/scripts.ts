import { createHash } from 'node:crypto'

/**
 * The Lua is text in TypeScript modules, so that a bundle holds it.
 *
 * Every script gets the stream and the set of parked entries as its keys, and the group and this consumer as its first
 * arguments. `owned` answers the pending entry if it is this consumer's: XACK and XCLAIM do not ask, and a consumer that
 * was frozen would take an entry from its successor.
 */
const BEFORE = `
local stream, parked, group, me = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local function owned(id)
  return redis.call('XPENDING', stream, group, id, id, 1, me)[1]
end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function other_groups()
  local names = {}
  for _, each in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    if each[2] ~= group then names[#names + 1] = each[2] end
  end
  return names
end
-- A group that came after the start of this consumer may not have got the entries yet.
local function ack(ids, keep)
  if #ids == 0 then return end
  redis.call('XACK', stream, group, unpack(ids))
  if keep == '0' and #other_groups() == 0 then redis.call('XDEL', stream, unpack(ids)) end
end
`

/** Owner of entries that were given back: nobody. */
const NOBODY = 'onceward:returned'
/** Longer than any \`claimIdleMs\`: whoever looks next takes the entry. */
const LONG_IDLE_MS = 172_800_000

/** Another consumer that used the group within this time uses it still. */
const RECENT_MS = 30_000
/** Steps through the pending list in one call. Each looks at ten times the entries that it may take. */
const CLAIM_STEPS = 10

const BODIES: Readonly<Record<ScriptName, string>> = {
  ack: `
local mine, lost = {}, {}
for i = 4, #ARGV do
  local list = owned(ARGV[i]) and mine or lost
  list[#list + 1] = ARGV[i]
end
ack(mine, ARGV[3])
return lost`,
  // What nobody owns was lost with the name of this consumer (DELCONSUMER), and only this process still has it.
  renew: `
local mine, lost = {}, {}
for i = 3, #ARGV do
  local id = ARGV[i]
  if owned(id) then mine[#mine + 1] = id
  elseif redis.call('XPENDING', stream, group, id, id, 1)[1] or not redis.call('XRANGE', stream, id, id)[1] then
    lost[#lost + 1] = id
  end
end
if #mine > 0 then
  mine[#mine + 1] = 'JUSTID'
  redis.call('XCLAIM', stream, group, me, 0, unpack(mine))
end
return lost`,
  giveBack: `
local lost = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  if owned(id) then
    redis.call('XCLAIM', stream, group, '${NOBODY}', 0, id, 'IDLE', ${LONG_IDLE_MS}, 'JUSTID')
  else lost[#lost + 1] = id end
end
return lost`,
  // The entry stays in the stream. It is acked, so that nobody claims it before its time.
  park: `
local id = ARGV[3]
if not owned(id) then return { id } end
redis.call('ZADD', parked, now() + ARGV[4], id .. ' ' .. ARGV[5])
redis.call('XACK', stream, group, id)
return {}`,
  claim: `
local least, count, cursor = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local taken, gone = {}, {}
-- What a dead consumer had ends, what is parked may not. A step of XAUTOCLAIM looks at few entries.
for _ = 1, ${CLAIM_STEPS} do
  local idle = redis.call('XAUTOCLAIM', stream, group, me, least, cursor, 'COUNT', count - #taken)
  cursor = idle[1]
  for _, entry in ipairs(idle[2]) do
    taken[#taken + 1] = { entry[1], entry[2], owned(entry[1])[4] }
  end
  for _, id in ipairs(idle[3] or {}) do gone[#gone + 1] = id end
  if #taken >= count or cursor == '0-0' then break end
end
if #taken == count then return { cursor, taken, gone } end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', parked, '-inf', now(), 'LIMIT', 0, count - #taken)) do
  local id, times = string.match(member, '^(%S+) (%d+)$')
  times = times + 1
  local entry = redis.call('XCLAIM', stream, group, me, 0, id, 'RETRYCOUNT', times, 'FORCE')[1]
  if entry then taken[#taken + 1] = { entry[1], entry[2], times }
  else gone[#gone + 1] = id end
  redis.call('ZREM', parked, member)
end
return { cursor, taken, gone }`,
  // The third key is the stream that gets the entry.
  move: `
local fields = {}
for i = 5, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('XADD', KEYS[3], '*', unpack(fields))
if owned(ARGV[4]) then ack({ ARGV[4] }, ARGV[3]) end
return {}`,
  ensureGroup: `
if redis.call('EXISTS', stream) == 1 then
  for _, each in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    if each[2] == group then return {} end
  end
end
redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
return {}`,
  removeConsumers: `
for _, each in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local name, pending, idle = each[2], each[4], each[6]
  if pending == 0 and idle >= tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
  end
end
return {}`,
  leave: `
for _, each in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  if each[2] == me and each[4] == 0 then redis.call('XGROUP', 'DELCONSUMER', stream, group, me) end
end
return {}`,
  // The third key is the list of consumers. What was delivered and is still in the stream must be pending or parked.
  neighbours: `
if redis.call('EXISTS', stream) == 0 then return { {}, {}, false } end
local consumer, time = ARGV[4], now()
redis.call('ZADD', KEYS[3], time, consumer)
redis.pcall('PEXPIRE', KEYS[3], ${2 * RECENT_MS})
local names = {}
for _, each in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], time - ${RECENT_MS}, '+inf')) do
  if each ~= consumer then names[#names + 1] = each end
end
local others = other_groups()
if ARGV[3] ~= '0' or #others > 0 then return { others, names, false } end
local adrift, waiting = false, redis.pcall('ZCARD', parked)
if type(waiting) ~= 'number' then return { others, names, false } end
for _, each in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local lag = each[12]
  if each[2] == group and lag then
    adrift = redis.call('XINFO', 'STREAM', stream)[2] - lag - each[6] - waiting
  end
end
return { others, names, adrift }`,
  facts: `
local info = redis.pcall('INFO')
if type(info) == 'table' then info = false end
local found = redis.call('EXISTS', stream) == 1
local groups = found and redis.call('XINFO', 'GROUPS', stream) or {}
local oldest = false
for _, each in ipairs(groups) do
  if each[2] == group then oldest = redis.call('XPENDING', stream, group)[2] end
end
return { info, found and redis.call('XINFO', 'STREAM', stream) or false, groups, oldest }`,
}

export type ScriptName =
  | 'ack'
  | 'renew'
  | 'giveBack'
  | 'park'
  | 'claim'
  | 'move'
  | 'ensureGroup'
  | 'removeConsumers'
  | 'leave'
  | 'facts'
  | 'neighbours'

export interface Script {
  readonly source: string
  readonly sha: string
}

const scriptOf = (body: string): Script => {
  const source = `${BEFORE}${body}`
  return { source, sha: createHash('sha1').update(source).digest('hex') }
}

export const SCRIPTS: Readonly<Record<ScriptName, Script>> = Object.fromEntries(
  Object.entries(BODIES).map(([name, body]) => [name, scriptOf(body)]),
) as Record<ScriptName, Script>
